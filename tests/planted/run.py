#!/usr/bin/env python3
"""Bugs planted in kernels, each found and named: code, line of the kernel's text, grid point.

  tests/planted/run.py --tpuc build/tpuc [--only NAME]

A file says in its first lines how it is run and what standard error must then hold; the exit code must not be 0 or 70:

  # RUN: run                     arguments before the file
  # SAYS: E0252                  texts, up to the next RUN
  # SAYS: @LINE read here        the line of this file (its number) on which the comment `# read here` stands
"""
import argparse, os, re, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))

def cases(path):
    text = open(path).read()
    marks = {}
    for number, line in enumerate(text.split('\n'), 1):
        m = re.search(r'\S.*# (\w[\w ]*)$', line)
        if m and not line.startswith('#'):
            marks[m.group(1)] = number
    result = []
    for key, value in re.findall(r'^# (RUN|SAYS): (.*)$', text, re.M):
        if key == 'RUN':
            result.append((value.split(), []))
        elif value.startswith('@LINE '):
            result[-1][1].append(f'{os.path.basename(path)}:{marks[value[6:]]}')
        else:
            result[-1][1].append(value)
    return result

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    p.add_argument('--only', default='')
    args = p.parse_args()
    passed = failed = 0
    for name in sorted(os.listdir(HERE)):
        if not name.endswith('.tk') or args.only not in name:
            continue
        for words, says in cases(os.path.join(HERE, name)):
            r = subprocess.run([os.path.abspath(args.tpuc), *words, os.path.join(HERE, name)], capture_output=True, text=True,
                               timeout=120, stdin=subprocess.DEVNULL)
            missing = [s for s in says if s not in r.stderr]
            problem = None
            if r.returncode in (0, 70) or r.returncode < 0:
                problem = f'exit {r.returncode}'
            elif missing or not says:
                problem = f'does not say {missing}: {r.stderr[:700]}'
            if problem:
                print(f'FAIL {name} ({" ".join(words)}): {problem}')
            passed, failed = passed + (not problem), failed + bool(problem)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0

if __name__ == '__main__':
    sys.exit(main())
