#!/usr/bin/env python3
"""The scripts of examples/jax: what dump.py writes, tpuc evaluates to XLA's values and runs; slow.py lists what is slow.

  tests/jax.py --tpuc build/tpuc

Dumping needs JAX in the python3 of the path (or in that of $JAX_PYTHON): skipped without. slow.py needs none.
"""
import argparse, os, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DUMP, SLOW = (os.path.join(ROOT, 'examples', 'jax', name) for name in ('dump.py', 'slow.py'))
MODEL = '''
import jax, jax.numpy as jnp
def loops(x):
    return jax.lax.scan(lambda c, r: (c * 0.9 + r, jnp.sort(c)), jnp.zeros(x.shape[1]), x)
def narrow(x, i):
    y = x.astype(jnp.bfloat16) @ x.T.astype(jnp.bfloat16)
    return {'y': y, 'rows': jnp.take(x, i, axis=0), 'p': x > 0, 'c': jnp.fft.fft(x[:, :8])}
def image(x, w):
    y = jax.lax.conv_general_dilated(x, w, (2, 2), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC'))
    return jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), 'VALID')
x = jnp.sin(jnp.arange(24 * 40, dtype=jnp.float32)).reshape(24, 40)
matrix, indexed = (x,), (x, jnp.array([3, 0, 23, 3]))
images = (jnp.cos(jnp.arange(2 * 9 * 9 * 3, dtype=jnp.float32)).reshape(2, 9, 9, 3), jnp.ones((3, 3, 3, 5)) / 7)
'''
# The function, its arguments, and arguments of tpuc diff.
DUMPS = [('', '', ['--rtol', '1e-4', '--atol', '1e-6']), ('loops', 'matrix', ['--rtol', '1e-5', '--atol', '1e-6']),
         ('narrow', 'indexed', ['--rtol', '1e-5', '--atol', '1e-5']), ('image', 'images', ['--rtol', '1e-5', '--atol', '1e-6'])]

def run(command, cwd=None):
    r = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    return r.returncode, r.stdout, r.stderr

def check_slow(tpuc, path):
    code, out, err = run([sys.executable, SLOW, path, '--tpuc', tpuc, '--top', '3'])
    if code or 'bound by' not in out or ' cycles, ' not in out:
        return f'slow.py: exit {code}: {err[-300:]}'
    return None

def check_dump(tpuc, python, function, args, limits, folder):
    name = function or 'example'
    command = [python, DUMP, '--out', os.path.join(folder, name)]
    if function:
        command[2:2] = [os.path.join(folder, 'model.py'), '--function', function, '--args', args]
    code, _, err = run(command, folder)
    if code:
        return f'dump.py: exit {code}: {err[-300:]}'
    got = os.path.join(folder, name + '.got.npz')
    code, _, err = run([tpuc, 'run', '--reference', name + '.hlo', '--input', name + '.inputs.npz', '--output', got], folder)
    if code:
        return f'tpuc run --reference: exit {code}: {err[-300:]}'
    code, out, err = run([tpuc, 'diff', name + '.outputs.npz', got] + limits, folder)
    if code:
        return f'tpuc diff: exit {code}: {(out + err)[-300:]}'
    return None

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--tpuc', required=True)
    tpuc = os.path.abspath(p.parse_args().tpuc)
    python = os.environ.get('JAX_PYTHON', 'python3')
    results = [('slow.py, mini_attention', check_slow(tpuc, os.path.join(ROOT, 'examples', 'mini_attention.hlo')))]
    if run([python, '-c', 'import jax'])[0]:
        print('SKIP dump.py: no JAX in python3 (python3 -m pip install jax; or JAX_PYTHON names one that has it)')
    else:
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, 'model.py'), 'w') as f:
                f.write(MODEL)
            for function, args, limits in DUMPS:
                results.append((f'dump.py, {function or "example"}', check_dump(tpuc, python, function, args, limits, folder)))
            results.append(('slow.py, example', check_slow(tpuc, os.path.join(folder, 'example.hlo'))))
    for name, problem in results:
        if problem:
            print(f'FAIL {name}: {problem}')
    failed = sum(1 for _, problem in results if problem)
    print(f'{len(results) - failed} passed, {failed} failed')
    return 1 if failed else 0

if __name__ == '__main__':
    sys.exit(main())
