#!/usr/bin/env python3
"""Every innermost loop of the examples runs as often as its busiest unit allows, or names what holds it back.

  tests/loops.py --tpuc build/tpuc

A loop starts a new trip every `ii` cycles; `mii` is what its instructions need of the busiest slot or unit, or of a chain from trip to
trip. ii <= 1.15 mii, on every chip there is; a loop that a chain holds back says "recurrence: " and which one. And the larger examples
as a whole: cycles of all kernels on the v6e, without waits for DMA.
"""
import argparse, glob, json, os, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT = 1.15
LEAST = {'naive_attention.hlo': 4, 'attention_l12.hlo': 4, 'transformer_block.hlo': 30}  # loops that are there
# Cycles without waits for DMA. Naive attention: the real compiler's code takes 219,186 (schedule-targets.md attains 192,000 of the same
# operations); the block: what it takes here, and a tenth.
CYCLES = {'naive_attention.hlo': 192000, 'transformer_block.hlo': 55500}

def kernels(stats):
    """All objects of the statistics that have loops."""
    if isinstance(stats, dict):
        if 'loops' in stats:
            yield stats
        stats = list(stats.values())
    for s in stats if isinstance(stats, list) else []:
        yield from kernels(s)

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    args = p.parse_args()
    passed = failed = 0
    for chip in ('v6e', 'v5e'):
        for path in sorted(glob.glob(os.path.join(ROOT, 'examples', '*.hlo'))):
            name = os.path.basename(path)
            r = subprocess.run([args.tpuc, 'run', path, '--chip', chip, '--timing-only', '--json'], capture_output=True, text=True)
            if r.returncode:
                print(f'FAIL {chip} {name}: exit {r.returncode}: {r.stderr[:400]}')
                failed += 1
                continue
            stats = json.loads(r.stdout)
            loops = [(k['name'], l) for k in kernels(stats) for l in k['loops']]
            bad = [f'FAIL {chip} {name}, kernel {k}: ii {l["ii"]}, mii {l["mii"]}, {l["bound"]}' for k, l in loops
                   if l['ii'] > LIMIT * l['mii'] and not l['bound'].startswith('recurrence: ')]
            if len(loops) < LEAST.get(name, 0):
                bad.append(f'FAIL {chip} {name}: {len(loops)} innermost loops, not {LEAST[name]} or more')
            work = sum(k['cycles'] - k['stalls']['dma'] for k in kernels(stats))
            if chip == 'v6e' and work > CYCLES.get(name, work):
                bad.append(f'FAIL {chip} {name}: {work} cycles without waits for DMA, not {CYCLES[name]} or less')
            print('\n'.join(bad), end='\n' if bad else '')
            passed, failed = passed + (not bad), failed + len(bad)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0

if __name__ == '__main__':
    sys.exit(main())
