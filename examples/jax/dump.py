#!/usr/bin/env python3
"""Dumps a jitted JAX function with its inputs and XLA's results, for `tpuc run` and `tpuc diff`.

  python3 examples/jax/dump.py my_model.py --function loss --out loss     # my_model.py defines loss and, as `args`, its arguments
  python3 examples/jax/dump.py --out mlp                                  # no file: the small network at the end of this one

or, from a program of one's own:

  from dump import dump
  dump(f, x, y, out='folder/name')

writes name.hlo (HLO text as JAX lowers the function for a TPU, all constants in full), name.inputs.npz (in0, in1 ... the leaves of the
arguments) and name.outputs.npz (out0, out1 ... what XLA computes on the CPU, rounding to bf16 where the program says so). Then:

  tpuc run --reference name.hlo --input name.inputs.npz --output got.npz
  tpuc diff name.outputs.npz got.npz --rtol 1e-5 --atol 1e-5
  tpuc run name.hlo --input name.inputs.npz --check --stats
"""
import argparse, os, runpy, sys


def store(x):
    """An array as tpuc stores it: types that NumPy lacks are the unsigned integers of their bits (int4 and below: int8)."""
    import jax, numpy as np
    if isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    a = np.asarray(x)
    if a.dtype.name in ('int2', 'int4'):
        return a.astype(np.int8)
    if a.dtype.name in ('uint2', 'uint4'):
        return a.astype(np.uint8)
    if a.dtype.kind == 'V' or a.dtype.name.startswith(('bfloat', 'float8', 'float4', 'float6')):
        return a.view({1: np.uint8, 2: np.uint16}[a.dtype.itemsize])
    return a


def dump(f, *args, out, **kwargs):
    """Writes out.hlo, out.inputs.npz and out.outputs.npz; returns the HLO text."""
    import jax, numpy as np
    jitted = jax.jit(f, keep_unused=True)  # a parameter for every leaf, read or not
    lowered = jitted.trace(*args, **kwargs).lower(lowering_platforms=('tpu',))
    text = lowered.as_text(dialect='hlo', debug_info=True)  # constants in full, op_names
    exact = {'xla_allow_excess_precision': False}
    results = jitted.lower(*args, **kwargs).compile(compiler_options=exact)(*args, **kwargs)
    folder = os.path.dirname(out)
    if folder:
        os.makedirs(folder, exist_ok=True)
    with open(out + '.hlo', 'w') as file:
        file.write(text)
    leaves = jax.tree_util.tree_leaves
    np.savez(out + '.inputs.npz', **{f'in{i}': store(x) for i, x in enumerate(leaves((args, kwargs)))})
    np.savez(out + '.outputs.npz', **{f'out{i}': store(x) for i, x in enumerate(leaves(results))})
    return text


def example():
    """A network of two layers with layer norm, and the gradient of its loss."""
    import jax, jax.numpy as jnp

    def layer_norm(x):
        mean = jnp.mean(x, axis=-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(jnp.var(x, axis=-1, keepdims=True) + 1e-5)

    def loss(weights, x, y):
        h = jax.nn.gelu(layer_norm(x) @ weights['w1'] + weights['b1'])
        return jnp.mean((h @ weights['w2'] - y) ** 2)

    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    weights = {'w1': jax.random.normal(keys[0], (64, 256)) / 8, 'b1': jnp.zeros(256), 'w2': jax.random.normal(keys[1], (256, 32)) / 16}
    return jax.value_and_grad(loss), (weights, jax.random.normal(keys[2], (128, 64)), jax.random.normal(keys[3], (128, 32)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('file', nargs='?', help='a Python file that defines the function and its arguments')
    p.add_argument('--function', default='f', help='the name of the function in it (f)')
    p.add_argument('--args', default='args', help='the name of the tuple of its arguments, or of a function that makes it (args)')
    p.add_argument('--out', required=True, help='folder/name of what is written, without an ending')
    options = p.parse_args()
    try:
        import jax
    except ImportError:
        print('dump.py needs JAX: python3 -m pip install jax', file=sys.stderr)
        return 1
    if options.file:
        names = runpy.run_path(options.file)
        for name in (options.function, options.args):
            if name not in names:
                print(f'dump.py: {options.file} does not define {name}', file=sys.stderr)
                return 1
        f, args = names[options.function], names[options.args]
        args = args() if callable(args) else args
    else:
        f, args = example()
    text = dump(f, *args, out=options.out)
    out = options.out
    print(f'{out}.hlo: {len(text.splitlines())} lines of HLO, {len(jax.tree_util.tree_leaves(args))} parameters')
    print(f'next: tpuc run --reference {out}.hlo --input {out}.inputs.npz --output got.npz')
    print(f'      tpuc diff {out}.outputs.npz got.npz --rtol 1e-5 --atol 1e-5')
    return 0


if __name__ == '__main__':
    sys.exit(main())
