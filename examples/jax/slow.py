#!/usr/bin/env python3
"""Lists what in a program is slow on a chip: its kernels by cycles, what bounds each, and the lines of the model they come from.

  python3 examples/jax/slow.py model.hlo [--tpuc build/tpuc] [--chip v6e] [--top 10]

Needs no JAX: the program is HLO text, as dump.py or jax.jit(f).lower(x).as_text(dialect='hlo') prints it. Cycles are those of
`tpuc run --timing-only --json`. `bound by` is the largest of: cycles that waited for a copy (dma), for a result (operand, queue) or for a busy
unit, and else the unit that issues most. A kernel is a fusion of several operations of the model: `share` in the second table divides a
kernel's cycles evenly among the op_names it carries.
"""
import argparse, json, os, re, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(tpuc, chip, path):
    r = subprocess.run([tpuc, 'run', '--timing-only', '--json', '--chip', chip, path], capture_output=True, text=True)
    if r.returncode:
        sys.stderr.write(r.stderr)
        print(f'slow.py: tpuc cannot time {path} (exit {r.returncode})', file=sys.stderr)
        sys.exit(1)
    return json.loads(r.stdout)


def bound(kernel):
    """What most of the kernel's cycles went into, and how many percent."""
    cycles = max(1, kernel['cycles'])
    waits = {f'waits for {what}': kernel['stalls'][key] for key, what in
             (('dma', 'copies'), ('operand', 'operands'), ('queue', 'results'), ('unit', 'units'))}
    what, most = max(waits.items(), key=lambda item: item[1])
    if 2 * most < cycles:  # it mostly issues: the unit with the most instructions
        unit, issued = max(kernel['slots'].items(), key=lambda item: item[1])
        return f'issue ({unit})', 100 - 100 * sum(waits.values()) // cycles
    return what, 100 * most // cycles


def short(name, width):
    return name if len(name) <= width else '..' + name[2 - width:]


def scope(op_name):
    """jit(f)/layer_1/dot_general -> layer_1/dot_general"""
    return re.sub(r'^(jit\([^/]*\)|main)/', '', op_name)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('hlo')
    p.add_argument('--tpuc', default=os.path.join(ROOT, 'build', 'tpuc'))
    p.add_argument('--chip', default='v6e')
    p.add_argument('--top', type=int, default=10)
    options = p.parse_args()
    stats = run(options.tpuc, options.chip, options.hlo)
    total = max(1, stats['cycles'])
    kernels = sorted(stats['kernels'], key=lambda k: -k['cycles'])
    print(f'{os.path.basename(options.hlo)} on {options.chip}: {stats["cycles"]:,} cycles, {stats["time_us"]:.2f} us, {len(kernels)} kernels')
    print()
    print(f'{"cycles":>10} {"share":>6}  {"bound by":<26} {"kernel":<28} from')
    for k in kernels[:options.top]:
        what, percent = bound(k)
        names = [scope(n) for n in k['op_names']] or k['ops']
        more = f' and {len(names) - 1} more' if len(names) > 1 else ''
        print(f'{k["cycles"]:>10,} {100 * k["cycles"] / total:>5.1f}%  {what + f" {percent}%":<26} {short(k["name"], 28):<28} {short(names[0] if names else "-", 48)}{more}')
    by_name = {}
    for k in kernels:
        names = sorted({scope(n) for n in k['op_names']})
        for name in names:
            by_name[name] = by_name.get(name, 0) + k['cycles'] / len(names)
    if by_name:
        print()
        print(f'{"cycles":>10} {"share":>6}  operation of the model')
        for name, cycles in sorted(by_name.items(), key=lambda item: (-item[1], item[0]))[:options.top]:
            print(f'{cycles:>10,.0f} {100 * cycles / total:>5.1f}%  {short(name, 90)}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
