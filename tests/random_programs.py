#!/usr/bin/env python3
"""Random HLO programs: compiled and run on the interpreter, they must agree with the reference evaluator (`tpuc run --check`), and -O0
must give the same bytes as -O2. A seed gives the same program everywhere.

  tests/random_programs.py --tpuc build/tpuc [--first 0] [--count 250] [--large] [--keep FOLDER] [--print SEED]

A program is a parameter and one to nine random steps: element-wise operations, broadcasts, reshapes, transposes, slices, pads,
concatenations, reversals, reductions and dots of any dimensions, conversions, around the sizes of tiles. What does not fit VMEM is
left out; any other refusal fails.
"""
import argparse, concurrent.futures, os, random, subprocess, sys, tempfile

FLOATS = ['f32', 'bf16', 'f16', 'f8e4m3fn', 'f8e5m2']
SMALL = [1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 24, 31, 40, 64, 128, 130]
LARGE = [1, 2, 3, 4, 5, 7, 8, 9, 16, 24, 31, 40, 64, 100, 127, 128, 129, 130, 200, 256, 300]
TYPES = [['f32'], ['f32'], ['f32', 'bf16'], ['f32', 's32'], ['f32', 's8'], ['f32', 'bf16', 's8', 's32', 'u8', 'f16', 's16', 'u16', 'u32', 'f8e4m3fn', 'f8e5m2']]

def shape(t, d):
    return f'{t}[{",".join(map(str, d))}]'

def braces(numbers):
    return '{' + ','.join(map(str, numbers)) + '}'

def product(d):
    r = 1
    for x in d:
        r *= x
    return r

def factors(n):
    f, p = [], 2
    while n > 1:
        while n % p == 0:
            f.append(p)
            n //= p
        p += 1
    return f

class Program:
    def __init__(self, seed, large):
        self.r = random.Random(seed)
        self.types = self.r.choice(TYPES)
        self.sizes, self.most = (LARGE, 400000) if large else (SMALL, 30000)
        self.lines, self.values, self.names, self.parameters, self.reducers = [], [], 0, 0, set()
        self.parameter()
        for _ in range(self.r.randint(1, 9)):
            step = self.r.choice(['elementwise', 'elementwise', 'broadcast', 'broadcast', 'reshape', 'transpose', 'slice', 'pad', 'concatenate',
                                  'reverse', 'reduce', 'reduce', 'normalise', 'dot', 'dot', 'select', 'convert', 'iota'])
            getattr(self, step)(*self.pick())
        self.outputs = [self.values[-1]] + ([self.r.choice(self.values)] if self.r.random() < 0.3 else [])

    def add(self, t, d, text):
        self.names += 1
        self.lines.append(f'  v{self.names} = {shape(t, d)} {text}')
        self.values.append((f'v{self.names}', t, list(d)))
        return f'v{self.names}'

    def constant(self, t, value):
        self.names += 1
        self.lines.append(f'  c{self.names} = {t}[] constant({value})')
        return f'c{self.names}'

    def dims(self, rank):
        while True:
            d = [self.r.choice(self.sizes) for _ in range(rank)]
            if product(d) <= self.most:
                return d

    def parameter(self, d=None, t=None):
        d = self.dims(self.r.randint(1, 4)) if d is None else d
        name = self.add(t or self.r.choice(self.types), d, f'parameter({self.parameters})')
        self.parameters += 1
        return name

    def pick(self):
        return self.r.choice(self.values[-4:] if self.r.random() < 0.7 else self.values)

    def like(self, t, d, again=0.8):
        """A value of this type and shape, or a parameter."""
        found = [v[0] for v in self.values if v[1:] == (t, d)]
        return self.r.choice(found) if found and self.r.random() < again else self.parameter(d, t)

    # ---- steps: x is a value of type t and dimensions d ----

    def elementwise(self, x, t, d):
        if t == 'pred':
            return self.add(t, d, f'{self.r.choice(["and", "or", "xor"])}({x}, {self.like(t, d)})')
        if self.r.random() < 0.3:
            ops = ['negate', 'abs', 'tanh', 'logistic', 'floor'] if t in FLOATS else ['negate'] if t[0] == 's' else ['not']
            return self.add(t, d, f'{self.r.choice(ops)}({x})')
        return self.add(t, d, f'{self.r.choice(["add", "multiply", "maximum", "subtract", "minimum"])}({x}, {self.like(t, d)})')

    def broadcast(self, x, t, d):
        rank = self.r.randint(len(d), 4)
        places = sorted(self.r.sample(range(rank), len(d)))
        to = [d[places.index(i)] if i in places else self.r.choice(self.sizes) for i in range(rank)]
        if product(to) <= self.most:
            self.add(t, to, f'broadcast({x}), dimensions={braces(places)}')

    def reshape(self, x, t, d):
        if len(d) >= 2 and self.r.random() < 0.3:  # two dimensions become one
            i = self.r.randrange(len(d) - 1)
            to = d[:i] + [d[i] * d[i + 1]] + d[i + 2:]
        elif d and self.r.random() < 0.4:  # one becomes two
            i = self.r.randrange(len(d))
            part = self.r.choice([n for n in range(1, d[i] + 1) if d[i] % n == 0])
            to = d[:i] + [part, d[i] // part] + d[i + 1:]
        else:
            to = [1] * self.r.randint(1, 4)
            for f in factors(product(d)):
                to[self.r.randrange(len(to))] *= f
        if len(to) <= 4:
            self.add(t, to, f'reshape({x})')

    def transpose(self, x, t, d):
        p = self.r.sample(range(len(d)), len(d))
        self.add(t, [d[i] for i in p], f'transpose({x}), dimensions={braces(p)}')

    def slice(self, x, t, d):
        parts, to = [], []
        for n in d:
            low = self.r.randrange(n) if self.r.random() < 0.4 else 0
            high = self.r.randint(low + 1, n) if self.r.random() < 0.5 else n
            stride = self.r.choice([1, 1, 1, 2, 3])
            parts.append(f'[{low}:{high}:{stride}]')
            to.append((high - low + stride - 1) // stride)
        if d:
            self.add(t, to, f'slice({x}), slice={{{", ".join(parts)}}}')

    def pad(self, x, t, d):
        parts, to = [], []
        for n in d:
            low, high, inside = self.r.choice([0, 0, 1, 3, 8]), self.r.choice([0, 0, 1, 5]), self.r.choice([0, 0, 0, 1])
            parts.append(f'{low}_{high}_{inside}')
            to.append(low + high + n + (n - 1) * inside)
        if d and product(to) <= self.most:
            value = 'true' if t == 'pred' else '0.5' if t in FLOATS else '3'
            self.add(t, to, f'pad({x}, {self.constant(t, value)}), padding={"x".join(parts)}')

    def concatenate(self, x, t, d):
        if not d:
            return
        i = self.r.randrange(len(d))
        other = d[:i] + [self.r.choice(self.sizes)] + d[i + 1:]
        to = d[:i] + [d[i] + other[i]] + d[i + 1:]
        if product(to) <= self.most:
            self.add(t, to, f'concatenate({x}, {self.like(t, other)}), dimensions={{{i}}}')

    def reverse(self, x, t, d):
        over = [i for i in range(len(d)) if self.r.random() < 0.5]
        if over:
            self.add(t, d, f'reverse({x}), dimensions={braces(over)}')

    def reduce(self, x, t, d, op=None, over=None):
        over = over or [i for i in range(len(d)) if self.r.random() < 0.5]
        if not over or t not in ('f32', 's32', 'bf16'):
            return None
        op = op or self.r.choice(['add', 'maximum', 'minimum'])
        self.reducers.add((op, t))
        start = {'add': '0', 'maximum': '-inf' if t in FLOATS else '-2147483648', 'minimum': 'inf' if t in FLOATS else '2147483647'}[op]
        kept = [d[i] for i in range(len(d)) if i not in over]
        return self.add(t, kept, f'reduce({x}, {self.constant(t, start)}), dimensions={braces(over)}, to_apply={op}_{t}'), kept, over

    def normalise(self, x, t, d):
        """A softmax along some dimensions."""
        if t != 'f32':
            return
        top = self.reduce(x, t, d, 'maximum')
        if not top:
            return
        rows = braces([i for i in range(len(d)) if i not in top[2]])
        m = self.add(t, d, f'broadcast({top[0]}), dimensions={rows}')
        e = self.add(t, d, f'exponential({self.add(t, d, f"subtract({x}, {m})")})')
        s = self.add(t, d, f'broadcast({self.reduce(e, t, d, "add", top[2])[0]}), dimensions={rows}')
        self.add(t, d, f'divide({e}, {s})')

    def dot(self, x, t, d):
        small = t in ('s8', 'u8')
        if not d or not (t in FLOATS or small):
            return
        k = self.r.randrange(len(d))
        others = [i for i in range(len(d)) if i != k]
        batch = self.r.sample(others, self.r.randint(0, min(2, len(others))))
        right = [('batch', d[i]) for i in batch] + [('k', d[k])] + [('free', n) for n in self.dims(self.r.choice([0, 1, 1, 1, 2]))]
        order = self.r.sample(range(len(right)), len(right))
        other = [right[i][1] for i in order]
        to = [d[i] for i in batch] + [d[i] for i in others if i not in batch] + [n for what, n in (right[i] for i in order) if what == 'free']
        if max(len(other), len(to)) > 4 or max(product(other), product(to)) > self.most:
            return
        y = self.parameter(other, t)
        places = [order.index(i) for i in range(len(batch) + 1)]
        result = 's32' if small else 'f32' if t.startswith('f8') else self.r.choice([t, 'f32'])
        self.add(result, to, f'dot({x}, {y}), lhs_batch_dims={braces(batch)}, rhs_batch_dims={braces(places[:-1])}, '
                             f'lhs_contracting_dims={{{k}}}, rhs_contracting_dims={{{places[-1]}}}')

    def select(self, x, t, d):
        if t != 'pred':
            y = self.like(t, d)
            p = self.add('pred', d, f'compare({x}, {y}), direction={self.r.choice(["LT", "GE", "EQ", "NE"])}')
            self.add(t, d, f'select({p}, {x}, {y})')

    def convert(self, x, t, d):
        to = self.r.choice(self.types)
        if to != t and not (t in FLOATS and to not in FLOATS):  # the evaluator and the chip round numbers near a half apart
            self.add(to, d, f'convert({x})')

    def iota(self, x, t, d):
        if d and t in ('f32', 's32'):
            y = self.add(t, d, f'iota(), iota_dimension={self.r.randrange(len(d))}')
            self.add(t, d, f'add({x}, {y})')

    def text(self):
        reducers = ''.join(f'\n{op}_{t} {{\n  a = {t}[] parameter(0)\n  b = {t}[] parameter(1)\n  ROOT r = {t}[] {op}(a, b)\n}}\n' for op, t in sorted(self.reducers))
        shapes, names = (', '.join(f(v) for v in self.outputs) for f in (lambda v: shape(v[1], v[2]), lambda v: v[0]))
        return f'HloModule random\n{reducers}\nENTRY main {{\n' + '\n'.join(self.lines) + f'\n  ROOT out = ({shapes}) tuple({names})\n}}\n'

def check(tpuc, seed, large, folder):
    path = os.path.join(folder, f'{seed}.hlo')
    with open(path, 'w') as f:
        f.write(Program(seed, large).text())
    outputs = []
    for level in ('-O2', '-O0'):
        out = os.path.join(folder, f'{seed}{level}.npz')
        try:
            r = subprocess.run([tpuc, 'run', '--check', level, path, '--output', out], capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return f'{level}: no answer in 300 s'
        if r.returncode:
            message = (r.stderr + r.stdout).strip().splitlines() or ['no message']
            return None if 'E1001' in message[0] else f'{level}: exit {r.returncode}: {message[0]}'
        with open(out, 'rb') as f:
            outputs.append(f.read())
        os.unlink(out)
    if outputs[0] != outputs[1]:
        return '-O0 and -O2 differ'
    os.unlink(path)
    return None

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc')
    p.add_argument('--first', type=int, default=0)
    p.add_argument('--count', type=int, default=250)
    p.add_argument('--large', action='store_true', help='arrays of up to 400,000 elements, not 30,000')
    p.add_argument('--keep', help='programs that fail stay in this folder')
    p.add_argument('--print', type=int, help='print the program of this seed and stop')
    args = p.parse_args()
    if args.print is not None:
        print(Program(args.print, args.large).text(), end='')
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as tmp, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folder = args.keep or tmp
        os.makedirs(folder, exist_ok=True)
        seeds = range(args.first, args.first + args.count)
        for seed, problem in zip(seeds, pool.map(lambda s: check(os.path.abspath(args.tpuc), s, args.large, folder), seeds)):
            if problem:
                failed += 1
                print(f'FAIL {seed}: {problem[:240]}', flush=True)
    print(f'{args.count - failed} passed, {failed} failed')
    return 1 if failed else 0

if __name__ == '__main__':
    sys.exit(main())
