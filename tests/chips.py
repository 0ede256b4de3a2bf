#!/usr/bin/env python3
"""Every chip runs every example: one source, no code per chip.

  tests/chips.py --tpuc build/tpuc

For each chip of `list chips` and each example: right values (--check), also with --strips=whole, -O0 gives the values of -O2, timing only gives the cycles of a run
with values, saved bundles run on their own chip without --chip and are refused by another. The chips' tables: the same names for all, each
number with its kind and source, and the peak of the MXUs as published (chips.md section 2).
"""
import argparse, json, os, subprocess, sys, tempfile, zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BF16_TFLOPS = {'v5e': 197, 'v6e': 918}    # chips.md section 2

def examples():
    for folder in ('examples', 'examples/kernels'):
        for name in sorted(os.listdir(os.path.join(ROOT, folder))):
            if name == 'whole_array_oom.tk':  # shows a diagnostic
                continue
            if name.endswith(('.hlo', '.tk')):
                yield f'{folder}/{name}'

class Tool:
    def __init__(self, path, tmp):
        self.path, self.tmp = path, tmp

    def call(self, *args):
        return subprocess.run([self.path, *args], capture_output=True, text=True, cwd=ROOT)

    def text(self, *args):
        r = self.call(*args)
        if r.returncode:
            raise RuntimeError(f'tpuc {" ".join(args)}: exit {r.returncode}: {r.stderr[:400]}')
        return r.stdout

    def run(self, *args):
        """(cycles, {array: bytes}) of a run."""
        out = os.path.join(self.tmp, 'out.npz')
        cycles = json.loads(self.text('run', '--json', '--output', out, *args))['cycles']
        with zipfile.ZipFile(out) as z:
            return cycles, {n: z.read(n) for n in z.namelist()}

def check_example(tool, chip, others, src, fail):
    cycles, values = tool.run(src, '--chip', chip, '--check')
    if tool.run(src, '--chip', chip, '-O0', '--check')[1] != values:
        fail('-O0 gives other values')
    tool.text('run', src, '--chip', chip, '--strips=whole', '--check')
    if json.loads(tool.text('run', '--json', '--timing-only', src, '--chip', chip))['cycles'] != cycles:
        fail('--timing-only gives other cycles')
    saved = os.path.join(tool.tmp, 'bundles.txt')
    tool.text(src, '--chip', chip, '-o', saved)
    if tool.run(saved) != (cycles, values):
        fail('saved bundles run differently')
    for other in others:
        r = tool.call('run', saved, '--chip', other)
        if r.returncode == 0 or f'compiled for {chip}' not in r.stderr:
            fail(f'bundles of {chip} are not refused by {other}: exit {r.returncode} {r.stderr[:200]}')

def check_table(chip, rows, names, fail):
    if sorted((r['section'], r['name']) for r in rows) != names:
        fail('names are not those of the other chips')
    for r in rows:
        if r['kind'] not in ('measured', 'published', 'derived', 'assumed') or not r['source']:
            fail(f'{r["name"]} has no kind or source')
    v = {r['name']: r['value'] for r in rows}
    side, rows_a_cycle = int(v['mxu_size']), 8 / int(v['matmul_f32'])
    peak = int(v['mxus']) * side * side * 2 * rows_a_cycle * float(v['clock_mhz']) * 1e6
    if abs(peak / 1e12 - BF16_TFLOPS[chip]) > 0.005 * BF16_TFLOPS[chip]:
        fail(f'{peak / 1e12:.1f} TFLOP/s, published {BF16_TFLOPS[chip]}')

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    args = p.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as tmp:
        tool = Tool(os.path.abspath(args.tpuc), tmp)
        rows = json.loads(tool.text('list', 'chips', '--json'))['rows']
        chips = sorted({r['chip'] for r in rows})
        names = sorted({(r['section'], r['name']) for r in rows})
        jobs = [(f'numbers of {c}', lambda f, c=c: check_table(c, [r for r in rows if r['chip'] == c], names, f)) for c in chips]
        for c in chips:
            others = [o for o in chips if o != c]
            jobs += [(f'{src} on {c}', lambda f, c=c, o=others, s=src: check_example(tool, c, o, s, f)) for src in examples()]
        for name, job in jobs:
            problems = [] if len(chips) > 1 else ['only one chip']
            try:
                job(problems.append)
            except (RuntimeError, KeyError, ValueError, OSError) as e:
                problems.append(str(e))
            for problem in problems:
                print(f'FAIL {name}: {problem}')
            passed, failed = passed + (not problems), failed + bool(problems)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0

if __name__ == '__main__':
    sys.exit(main())
