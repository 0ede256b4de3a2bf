#!/usr/bin/env python3
"""tpuc sweep: each line says what `tpuc run` at that point says; shards, threads and interrupted runs give the same bytes.

  tests/sweep.py --tpuc build/tpuc
"""
import argparse, json, os, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MATMUL = os.path.join(ROOT, 'examples/kernels/matmul.tk')
AXES = ['--set', 'M=512,N=256,K=512', '--set', 'bm=128,256', '--set', 'bk=128,100,512', '--where', 'bm * bk <= 65536']

class Test:
    def __init__(self, tpuc, folder):
        self.tpuc, self.folder, self.passed, self.failed = tpuc, folder, 0, 0
        self.env = {k: v for k, v in os.environ.items() if not k.startswith('SLURM_')}

    def run(self, *args, env=None):
        return subprocess.run([self.tpuc, *args], capture_output=True, text=True, env={**self.env, **(env or {})}, cwd=self.folder)

    def sweep(self, name, *args, env=None):
        """The bytes of the results file after the sweep."""
        r = self.run('sweep', MATMUL, *AXES, '-o', name, *args, env=env)
        if r.returncode:
            return f'exit {r.returncode}: {r.stderr}'
        return open(os.path.join(self.folder, name)).read()

    def expect(self, name, ok, why=''):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print(f'FAIL {name}: {why}')

    def all(self):
        whole = self.sweep('whole.jsonl')
        lines = [json.loads(l) for l in whole.splitlines()]
        # 2 x 3 points; 256 x 512 is cut by the condition, and numbers count before it.
        self.expect('points in order', [l['point'] for l in lines] == [0, 1, 2, 3, 4], [l['point'] for l in lines])
        wrong = []
        for l in lines:
            r = self.run('run', MATMUL, '--json', '--set', ','.join(f'{k}={v}' for k, v in l['set'].items()))
            if l['set']['bk'] == 100:
                if l.get('error', {}).get('code') != 'E2002' or 'E2002' not in r.stderr:
                    wrong.append(l)
                continue
            s = json.loads(r.stdout)
            k = s['kernels'][0]
            have = (l['cycles'], l['hbm_bytes'], l['spills'], l['vmem_bytes'], l['flops'], l['grid_steps'], l['dma_stall_cycles'], l['time_us'])
            want = (s['cycles'], s['hbm_bytes'], k['spills'], k['vmem_bytes'], k['flops'], k['grid_steps'], k['stalls']['dma'], s['time_us'])
            if have != want:
                wrong.append((have, want))
        self.expect('a line is what run says', not wrong and len(lines) == 5, wrong)
        self.expect('two threads, same bytes', self.sweep('two.jsonl', '-j', '2') == whole)
        for n in (2, 3):
            parts = []
            for i in range(n):
                self.sweep(f'part{i}of{n}.jsonl', '--shard', f'{i}/{n}')
                parts += ['--from', f'part{i}of{n}.jsonl']
            self.expect(f'{n} shards merge to the same bytes', self.sweep(f'merged{n}.jsonl', *parts) == whole)
        slurm = self.sweep('slurm.jsonl', env={'SLURM_ARRAY_TASK_ID': '5', 'SLURM_ARRAY_TASK_MIN': '4', 'SLURM_ARRAY_TASK_COUNT': '2'})
        self.expect('a SLURM array task is a shard', slurm == open(os.path.join(self.folder, 'part1of2.jsonl')).read(), slurm)
        for cut in (0, 1, len(whole) // 2, len(whole) - 1):
            with open(os.path.join(self.folder, 'cut.jsonl'), 'w') as f:
                f.write(whole[:cut])
            self.expect(f'resumed after {cut} bytes', self.sweep('cut.jsonl') == whole)
        marked = whole.replace('"bundles":', '"mark":1,"bundles":')
        with open(os.path.join(self.folder, 'marked.jsonl'), 'w') as f:
            f.write(marked)
        self.expect('what is there is not run again', self.sweep('marked.jsonl') == marked)
        other = self.sweep('other.jsonl', '--seed', '1')
        keys = [json.loads(l)['key'] for l in other.splitlines()]
        self.expect('another seed has other keys', not set(keys) & {l['key'] for l in lines}, keys)
        with open(os.path.join(self.folder, 'mine.txt'), 'w') as f:
            f.write('mine\n')
        self.expect("a file that is no sweep's is kept", 'E0403' in self.sweep('mine.txt') and open(os.path.join(self.folder, 'mine.txt')).read() == 'mine\n')
        r = self.run('sweep', os.path.join(ROOT, 'examples/01_add.hlo'), '--chip', 'v6e,v5e', '-O', '0,2', '--check', '-o', 'chips.jsonl')
        lines = [json.loads(l) for l in open(os.path.join(self.folder, 'chips.jsonl'))]
        self.expect('chips and levels', [(l['chip'], l['O'], l['check']['ok']) for l in lines] ==
                    [('v6e', 0, True), ('v6e', 2, True), ('v5e', 0, True), ('v5e', 2, True)], lines)
        self.expect('a table at the end', '4 points, 0 failed; fastest: point' in r.stdout, r.stdout)
        self.arrays()
        r = self.run('sweep', MATMUL, '--set', 'bm=128..256:128', '--list')
        self.expect('--list', r.stdout == f"tpuc run '{MATMUL}' --json --set bm=128\ntpuc run '{MATMUL}' --json --set bm=256\n", r.stdout)

    def arrays(self):
        """Points run again where an array that a kernel or a parameter names has changed."""
        def npy(name, values):
            header = "{'descr': '|i1', 'fortran_order': False, 'shape': (2, 2), }".ljust(117) + '\n'
            with open(os.path.join(self.folder, name), 'wb') as f:
                f.write(b'\x93NUMPY\x01\x00' + len(header).to_bytes(2, 'little') + header.encode() + bytes(values))
        with open(os.path.join(self.folder, 'masked.tk'), 'w') as f:
            f.write('kernel k {\n  array seen: s8[2,2] = "own.npy";\n  array more: s8[2,2] = "own.npy";\n'
                    '  mask m(r, c) over [256, 256] = seen[r / 128, c / 128] + more[r / 128, c / 128];\n  blocks b of m by (128, 128);\n'
                    '  grid t: b.active;\n  in x: f32[8,128];\n  out o: f32[8,128];\n  when t == 0 {\n    o[:] = x[:];\n  }\n}\n')
        with open(os.path.join(self.folder, 'call.hlo'), 'w') as f:
            f.write('HloModule k\nENTRY e {\n  x = f32[8,128] parameter(0)\n  ROOT r = f32[8,128] custom-call(x), '
                    'custom_call_target="tpuc.kernel", backend_config="{\\"file\\":\\"masked.tk\\"}"\n}\n')
        npy('own.npy', [1, 0, 1, 1])
        npy('other.npy', [1, 0, 0, 1])
        def keys(file, *more):
            r = self.run('sweep', file, *more, '-o', 'keys.jsonl')
            lines = [json.loads(l) for l in open(os.path.join(self.folder, 'keys.jsonl'))]
            os.remove(os.path.join(self.folder, 'keys.jsonl'))
            self.expect(f'{file} runs', r.returncode == 0 and all('error' not in l for l in lines), r.stderr + str(lines))
            return [l['key'] for l in lines]
        runs = [lambda: keys('masked.tk'), lambda: keys('masked.tk', '--set', 'more=other.npy'), lambda: keys('call.hlo')]
        before = [r() for r in runs]
        self.expect('same arrays, same keys', [r() for r in runs] == before)
        npy('other.npy', [1, 1, 0, 1])
        after = [r() for r in runs]
        self.expect('an array that a parameter names', [a == b for a, b in zip(after, before)] == [True, False, True], after)
        npy('own.npy', [1, 1, 0, 1])
        last = [r() for r in runs]
        self.expect('an array that a kernel names', [a == b for a, b in zip(last, after)] == [False, False, False], last)

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        t = Test(os.path.abspath(args.tpuc), folder)
        t.all()
    print(f'{t.passed} passed, {t.failed} failed')
    return 1 if t.failed else 0

if __name__ == '__main__':
    sys.exit(main())
