#!/usr/bin/env python3
"""Attention bodies: right values whatever the blocks, and code as good as the published kernels'.

  tests/attention.py --tpuc build/tpuc

Values: tests/kernels/causal_attention.tk against the block evaluator in chip numbers. Cycles of 8 x 2048 x 128 in bf16, without waits for
copies: what the real compiler's schedules of splash attention give with their active steps (80, 24, 8) and the rest of each step.
"""
import argparse, json, os, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KERNEL = os.path.join(ROOT, 'tests', 'kernels', 'causal_attention.tk')
VALUES = [  # parameters, options
    ('H=1,S=512,bq=128,bkv=256', []), ('H=1,S=512,bq=256,bkv=256,bc=128', []), ('H=1,S=1024,bq=512,bkv=512', []),
    ('H=1,S=1024,bq=1024,bkv=512', []), ('H=1,S=1024,bq=512,bkv=1024', ['-O', '0']), ('H=1,S=1024,bq=1024,bkv=1024', []),
    ('H=1,S=1024,bq=1024,bkv=1024,bc=512', []), ('H=1,S=1024,bq=1024,bkv=1024', ['-O', '0']),
    ('H=1,S=512,bq=512,bkv=512,D=192,bc=256', []), ('H=1,S=512,bq=256,bkv=512', ['--strips', 'whole']),
    ('H=1,S=1024,bq=512,bkv=1024', ['--chip', 'v5e']), ('H=1,S=640,bq=640,bkv=128', []), ('H=1,S=600,bq=200,bkv=200', []),
]
CYCLES = [(512, 130200), (1024, 100800), (2048, 120800)]

def operations(tpuc):
    """What --json says of heads of 192 and 128: products with the zeros that pad 192 to 256 and 128 to 256, and the maxima of rows."""
    sets = 'H=1,Hkv=1,Sq=512,Skv=512,D=192,Dv=128,bq=512,bkv=512,right=-1'
    kernels = []
    for more in ('', ',fixed_max=1'):
        r = subprocess.run([tpuc, 'run', os.path.join(ROOT, 'examples/kernels/splash_attention.tk'), '--set', sets + more, '--timing-only', '--json'],
                           capture_output=True, text=True)
        if r.returncode:
            return r.stderr[:400]
        kernels.append(json.loads(r.stdout)['kernels'][0])
    for k in kernels:
        zeros = sorted(o['dot']['on_zeros'] for o in k['operations'] if 'dot' in o)
        if zeros != [0.25, 0.5]:
            return f'MXU work on zeros: {zeros}'
        for unit in ('mxu', 'xlu', 'eup'):
            if sum(o['slots'][unit] for o in k['operations']) != k['slots'][unit]:
                return f'operations do not add up to the {unit} work of the kernel'
    top = [sum(o['slots']['xlu'] for o in k['operations'] if o['name'] == 'reduce_max') for k in kernels]
    return None if top[0] > 0 and top[1] == 0 else f'work of row maxima: {top}'

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    args = p.parse_args()
    failed = 0
    for sets, options in VALUES:
        r = subprocess.run([args.tpuc, 'run', KERNEL, '--set', sets, '--check', *options], capture_output=True, text=True)
        if r.returncode:
            failed += 1
            print(f'FAIL {sets} {" ".join(options)}: exit {r.returncode}: {(r.stdout + r.stderr)[:400]}')
    for block, most in CYCLES:
        r = subprocess.run([args.tpuc, 'run', KERNEL, '--set', f'H=8,S=2048,bq={block},bkv={block}', '--timing-only', '--json'],
                           capture_output=True, text=True)
        if r.returncode:
            failed += 1
            print(f'FAIL block {block}: exit {r.returncode}: {r.stderr[:400]}')
            continue
        k = json.loads(r.stdout)['kernels'][0]
        cycles = k['cycles'] - k['stalls']['dma']
        print(f'block {block}: {cycles} cycles, at most {most}; spills {k["spills"]}')
        failed += cycles > most or k['spills'] > 0
    problem = operations(args.tpuc)
    failed += bool(problem)
    if problem:
        print(f'FAIL operations of a run: {problem}')
    print(f'{len(VALUES) + len(CYCLES) + 1 - failed} passed, {failed} failed')
    return 1 if failed else 0

if __name__ == '__main__':
    sys.exit(main())
