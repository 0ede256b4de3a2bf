#!/usr/bin/env python3
"""The output that the README files show is what the tool prints.

  tests/readme.py --tpuc build/tpuc [--update]

A block of output stands indented below a comment that says the command, and what of its output is shown:

  <!-- output: tpuc run examples/mini_attention.hlo --check --stats -->
  <!-- output: tpuc examples/mini_attention.hlo -o - | from "kernel add_sqrt" to "}" -->

--update writes the blocks anew. Commands run in the root of the tree. A block below one of these is a kernel file, which is run:

  <!-- runs -->          and its values are those of the block evaluator
  <!-- fails: E0252 -->  with that diagnostic
"""
import argparse, os, re, shlex, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILES = ['README.md', 'examples/README.md', 'examples/jax/README.md', 'examples/kernels/README.md']

def shown(tpuc, command):
    """The lines that the command prints, cut as it says."""
    call, _, cut = command.partition(' | ')
    words = shlex.split(call)
    command = [tpuc] + words[1:] if words[0] == 'tpuc' else [sys.executable] + words[1:] + ['--tpuc', tpuc]
    r = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f'{call}: exit {r.returncode}: {r.stderr[:300]}')
    lines = [l.rstrip() for l in r.stdout.rstrip('\n').split('\n')]
    if cut:
        start, end = re.fullmatch(r'from "(.*)" to "(.*)"', cut).groups()
        first = next(i for i, l in enumerate(lines) if l.strip().startswith(start))
        last = next(i for i, l in enumerate(lines) if i > first and l.strip().startswith(end))
        lines = lines[first:last + 1]
        lines = [l[len(lines[0]) - len(lines[0].lstrip()):] for l in lines]
    return lines

def kernel_fault(tpuc, text, code):
    """What is wrong with a kernel file that should run, or fail with the code; None if nothing is."""
    r = subprocess.run([tpuc, 'run', '-', '--check'], cwd=ROOT, input=text, capture_output=True, text=True)
    if code:
        return None if r.returncode in (1, 4) and f'[{code}]' in r.stderr else f'exit {r.returncode}, not {code}: {r.stderr[:300]}'
    return f'exit {r.returncode}: {r.stderr[:300]}' if r.returncode else None

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    p.add_argument('--update', action='store_true')
    args = p.parse_args()
    tpuc = os.path.abspath(args.tpuc)
    passed = failed = 0
    for name in FILES:
        path = os.path.join(ROOT, name)
        old = open(path).read().split('\n')
        new, i = [], 0
        while i < len(old):
            new.append(old[i])
            m = re.fullmatch(r'<!-- (?:output: (.*)|runs|fails: (E\d+)) -->', old[i])
            i += 1
            if not m:
                continue
            end = i
            while end < len(old) and (not old[end] or old[end].startswith('    ')):
                end += 1
            have = '\n'.join(old[i:end]).strip('\n')
            if m.group(1) is None:
                fault = kernel_fault(tpuc, '\n'.join(l[4:] for l in old[i:end]), m.group(2))
                if fault:
                    print(f'FAIL {name}: the kernel below line {i}: {fault}')
                passed, failed = passed + (not fault), failed + bool(fault)
                continue
            try:
                want = '\n'.join('    ' + l if l else '' for l in shown(tpuc, m.group(1)))
            except (RuntimeError, StopIteration) as e:
                want = None
                print(f'FAIL {name}: {m.group(1)}: {e or "the text to cut at is not there"}')
            if want != have and want is not None and not args.update:
                print(f'FAIL {name}: the output of {m.group(1)} is another (make golden)')
            ok = want == have or (args.update and want is not None)
            passed, failed = passed + ok, failed + (not ok)
            new += ['', want if want is not None else have, '']
            i = end
        if args.update:
            with open(path, 'w') as f:
                f.write('\n'.join(new))
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0

if __name__ == '__main__':
    sys.exit(main())
