#!/usr/bin/env python3
"""Random modules: the reference evaluator against XLA on a CPU. Needs JAX (its own XLA), and takes a while: not part of tests/all.py.

  tests/modules/against_xla.py --build build [--first 0] [--count 500] [--keep FOLDER]

The module of a seed is `random_modules --print SEED`, its inputs those that tpuc makes (splitmix64). XLA refuses or aborts on some modules
that HLO allows; those are counted, not compared. Left out, because they differ by definition: random numbers (rng), dynamic dimensions.
"""
import argparse, collections, os, pickle, re, subprocess, sys, tempfile

LEFT_OUT = re.compile(r' (rng|rng-get-and-update-state|set-dimension-size|dynamic-reshape|custom-call|domain)\(|rng_default')
GOLD, M1, M2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

def draws(parameter, first, n):
    import numpy as np
    x = np.uint64(parameter << 40) ^ np.arange(first, first + n, dtype=np.uint64)
    with np.errstate(over='ignore'):
        x = x + np.uint64(GOLD)
        x = (x ^ x >> np.uint64(30)) * np.uint64(M1)
        x = (x ^ x >> np.uint64(27)) * np.uint64(M2)
    return x ^ x >> np.uint64(31)

def made(dtype, dims, parameter):
    """Parameter `parameter` as tpuc makes it (oracle README), seed 0."""
    import numpy as np
    n = int(np.prod(dims, dtype=np.int64))
    dtype = np.dtype(dtype)
    name = dtype.name
    if dtype.kind == 'c':
        x = draws(parameter, 0, 2 * n)
        f = (x >> np.uint64(40)).astype(np.float32) * np.float32(2.0 ** -23) - np.float32(1)
        return (f[0::2] + 1j * f[1::2].astype(np.complex128)).astype(dtype).reshape(dims)
    x = draws(parameter, 0, n)
    if name == 'bool':
        return (x >> np.uint64(63)).astype(bool).reshape(dims)
    if name.startswith(('int', 'uint')):
        bits = min(4, int(re.sub(r'\D', '', name)))
        v = ((x >> np.uint64(32)) % np.uint64(1 << bits)).astype(np.int64) - ((1 << bits) // 2 if name[0] == 'i' else 0)
        return v.astype(dtype).reshape(dims)
    f = (x >> np.uint64(40)).astype(np.float32) * np.float32(2.0 ** -23) - np.float32(1)
    return f.astype(dtype).reshape(dims)

def worker():
    """Reads paths of HLO text; answers each with a pickle of XLA's results, or of a message."""
    import jax, numpy as np
    jax.config.update('jax_enable_x64', True)
    from jax._src.lib import xla_client as xc
    from jax._src import xla_bridge, compiler
    backend = xla_bridge.get_backend('cpu')
    out = os.fdopen(os.dup(1), 'wb')
    os.dup2(2, 1)
    for line in sys.stdin:
        path = line.strip()
        try:
            module = xc.hlo.hlo_module_from_text(open(path).read())
            computation = xc.hlo.XlaComputation(module.as_serialized_hlo_module_proto())
            shape = computation.program_shape()
            inputs = [made(s.numpy_dtype(), s.dimensions(), i) for i, s in enumerate(shape.parameter_shapes())]
            mlir = xc._xla.mlir.xla_computation_to_mlir_module(computation)
            options = compiler.get_compile_options(num_replicas=1, num_partitions=1,
                                                   env_options_overrides={'xla_allow_excess_precision': False})
            loaded = backend.compile_and_load(mlir, backend.devices()[:1], options)
            arrays = [jax.device_put(x, backend.devices()[0]) for x in inputs]
            results = loaded.execute_sharded(arrays).disassemble_into_single_device_arrays()
            answer = [np.asarray(r[0]) for r in results]
        except Exception as e:  # XLA refuses it
            answer = f'{type(e).__name__}: {str(e)[:200]}'
        pickle.dump(answer, out)
        out.flush()

class Xla:
    def __init__(self):
        self.process = None

    def run(self, path):
        if self.process is None:
            self.process = subprocess.Popen([sys.executable, __file__, '--worker'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            self.process.stdin.write(path.encode() + b'\n')
            self.process.stdin.flush()
            return pickle.load(self.process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self.process.kill()
            self.process.wait()
            self.process = None
            return 'XLA aborts'

def differ(want, got):
    """None, or how far the results are apart."""
    import numpy as np
    if want.shape != got.shape:
        return f'shape {got.shape}, XLA has {want.shape}'
    name = want.dtype.name
    narrow = name.startswith(('bfloat', 'float8', 'float4', 'float16'))
    if got.dtype != want.dtype:
        got = got.view(want.dtype) if got.dtype.itemsize == want.dtype.itemsize else got.astype(want.dtype)
    if want.dtype.kind in 'iub' or name.startswith(('int', 'uint')):
        return None if (want == got).all() else f'{(want != got).sum()} of {want.size} integers differ'
    w, g = (np.asarray(x).astype(np.complex128 if want.dtype.kind == 'c' else np.float64) for x in (want, got))
    if want.dtype.kind == 'c':
        w, g = np.stack([w.real, w.imag]), np.stack([g.real, g.imag])
    special = ~np.isfinite(w)
    if not np.where(np.isnan(w), np.isnan(g), w == g)[special].all():
        return 'another NaN or infinity'
    if not np.isfinite(g[~special]).all():
        return 'a NaN or infinity more'
    finite = np.abs(w[~special])
    scale = finite.max(initial=0)
    step = {'bfloat16': 2.0 ** -7, 'float16': 2.0 ** -10}.get(name, 0.25 if narrow else 0)
    far = np.abs(w - g)[~special] > step * finite + 2e-5 * scale + 1.2e-38
    return f'{far.sum()} of {w.size} differ, most by {np.abs(w - g)[~special].max():.3g} of scale {scale:.3g}' if far.any() else None

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build')
    p.add_argument('--first', type=int, default=0)
    p.add_argument('--count', type=int, default=500)
    p.add_argument('--keep')
    p.add_argument('--worker', action='store_true')
    args = p.parse_args()
    if args.worker:
        return worker()
    import numpy as np
    xla, passed, failed, refused = Xla(), 0, 0, collections.Counter()
    with tempfile.TemporaryDirectory() as tmp:
        folder = args.keep or tmp
        os.makedirs(folder, exist_ok=True)
        for seed in range(args.first, args.first + args.count):
            text = subprocess.run([f'{args.build}/random_modules', '--print', str(seed)], capture_output=True, text=True).stdout
            if LEFT_OUT.search(text):
                refused['left out'] += 1
                continue
            path, out = os.path.join(folder, f'{seed}.hlo'), os.path.join(tmp, 'out.npz')
            with open(path, 'w') as f:
                f.write(text)
            r = subprocess.run([f'{args.build}/tpuc', 'run', '--reference', path, '--output', out], capture_output=True, text=True)
            want = xla.run(path)
            if isinstance(want, str) or r.returncode:
                side = 'XLA: ' + want[:70] if isinstance(want, str) else 'tpuc: ' + r.stderr.split('\n')[0].split('error: ')[-1][:70]
                refused[side if not (isinstance(want, str) and r.returncode) else 'both'] += 1
                os.unlink(path)
                continue
            arrays = np.load(out)
            problems = [f'out{i}: {d}' for i, w in enumerate(want) if (d := differ(w, arrays[f'out{i}']))]
            if problems:
                failed += 1
                print(f'FAIL {seed}: {problems[0]}', flush=True)
                continue
            passed += 1
            os.unlink(path)
    for what, count in refused.most_common():
        print(f'{count:6} {what}')
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0

if __name__ == '__main__':
    sys.exit(main())
