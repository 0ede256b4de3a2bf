#!/usr/bin/env python3
"""Kernels in .tk text run on bundles with the values of the block evaluator.

  tests/kernels/run.py --tpuc build/tpuc [--only NAME] [--seeds 20]

For each .tk file here and in examples/kernels that takes no arguments: `run --check` at -O2, -O0 and with whole blocks; printed and read
back it gives the same text, cycles and values; timing alone gives the same cycles. A line `# SET: a=1,b=2` in the file is one more run.
With other orders of their parallel axes (`--permute-parallel`, seeds 1 to --seeds) they give the same results: no alarm.
A line `# STEERED: why` says that its cycles depend on its input's values (which --timing-only has not), as those of prefetched operands do. A line `# SKIP: why` leaves a file out (one that shows a diagnostic).
"""
import argparse, json, os, re, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(HERE)), 'examples', 'kernels')

def tool(tpuc, *args):
    r = subprocess.run([tpuc, *args], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    if r.returncode:
        raise RuntimeError(f'tpuc {" ".join(args)}: exit {r.returncode}: {r.stderr[:600]}')
    return r.stdout

def check(tpuc, path, sets, tmp, seeds):
    given = ['--set', sets] if sets else []
    for seed in range(1, seeds + 1):
        tool(tpuc, 'run', f'--permute-parallel={seed}', *given, path)
    ways = {}
    for way in ([], ['-O0'], ['--strips=whole']):
        stats = json.loads(tool(tpuc, 'run', '--check', '--json', *way, *given, path))
        if not stats['check']['ok']:
            return f'{way}: other values than the block evaluator'
        ways[' '.join(way)] = stats['cycles']
    timing = json.loads(tool(tpuc, 'run', '--timing-only', '--json', *given, path))['cycles']
    if timing != ways[''] and not re.search(r'^# STEERED: |^ *prefetch ', open(path).read(), re.M):
        return f'--timing-only takes {timing} cycles, a run with values {ways[""]}'
    printed = os.path.join(tmp, 'printed.tk')
    text = tool(tpuc, path, *given, '--stop-after=kernel')
    open(printed, 'w').write(text)
    if tool(tpuc, printed, '--stop-after=kernel') != text:
        return 'printed, read and printed again it differs'
    again = json.loads(tool(tpuc, 'run', '--check', '--json', printed))
    if not again['check']['ok'] or again['cycles'] != ways['']:
        return 'printed and read it runs differently'
    return None

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    p.add_argument('--only', default='')
    p.add_argument('--seeds', type=int, default=2, help='orders of parallel axes that are tried')
    args = p.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as tmp:
        for folder in (HERE, EXAMPLES):
            for name in sorted(os.listdir(folder)):
                if not name.endswith('.tk') or args.only not in name:
                    continue
                text = open(os.path.join(folder, name)).read()
                if re.search(r'^# SKIP: ', text, re.M):
                    continue
                for sets in [''] + re.findall(r'^# SET: (.*)$', text, re.M):
                    try:
                        problem = check(os.path.abspath(args.tpuc), os.path.join(folder, name), sets, tmp, args.seeds)
                    except (RuntimeError, subprocess.TimeoutExpired) as e:
                        problem = str(e)
                    if problem:
                        print(f'FAIL {name} {sets}: {problem}')
                    passed, failed = passed + (not problem), failed + bool(problem)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0

if __name__ == '__main__':
    sys.exit(main())
