"""What the kernels of a ResNet-20's step, and of its U, compile to for a GPU that need not be here.

    python benchmarks/kernels.py [--arch 90] [--batch 125]

A line for each kernel and what it is compiled for: warps, registers of a thread, bytes of its stack (what the registers
do not hold), kilobytes of shared memory, and how many programs of it a multiprocessor takes at once by both. --arch is
the compute capability: 80 an A100, 90 an H100 or H200, 100 a B200. Shapes are those of layers on images of 32 x 32;
what the kernels compute is shown by tests/test_residual.py and tests/test_convolution.py.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.nn.functional as F
import triton
from torch import Tensor
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from sgmcmc import convolution, residual
from sgmcmc.launch import OPTIONS
from sgmcmc.models import ResNet
from sgmcmc.precision import full_precision, products_in

TYPES = {torch.float16: "*fp16", torch.float32: "*fp32", torch.int32: "*i32"}
REGISTERS = 1 << 16  # of a multiprocessor
SHARED = {80: 164, 86: 100, 89: 100, 90: 228, 100: 228, 103: 228, 120: 100}  # KB of a multiprocessor
SHAPE = ("H", "OH", "C", "N", "STRIDE", "BLOCK_P", "BLOCK_Q", "BLOCK_N", "BLOCK_C", "BLOCK_K", "PRECISION")


def compiled(tell: Callable[[dict], None], depth: int = 20, batch: int = 125, arch: int = 90) -> None:
    """``tell`` a row of each kernel that the gradient of a minibatch in TF32 and U in float32 start, as they come."""
    seen = set()

    def launch(kernel, grid, x: Tensor, *arguments, **constants) -> None:
        options = OPTIONS | {name: constants.pop(name) for name in ("num_warps", "num_stages") if name in constants}
        given = dict(zip(kernel.arg_names, (x, *arguments), strict=False)) | constants
        source = _source(kernel, given)
        key = kernel.__name__, str(source.signature), str(source.constants), str(source.attrs), str(options)
        if key in seen:
            return
        seen.add(key)
        found = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
        how = {name: given[name] for name in SHAPE if name in given}
        tell({"kernel": kernel.__name__, **how, "warps": found.metadata.num_warps, **_usage(found)})

    model = ResNet(depth=depth).to(memory_format=torch.channels_last)
    for layer in model.modules():
        layer.compiled = True
    images = torch.randn(batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    with (
        products_in("tf32"),
        patch.object(residual, "launch", launch),
        patch.object(convolution, "launch", launch),
        patch.object(convolution, "on_device", lambda x: True),
    ):
        loss = F.cross_entropy(model(images), torch.zeros(batch, dtype=torch.long))
        torch.autograd.grad(loss, list(model.parameters()))
        for layer in model.modules():  # U's normalisations are Inductor's
            layer.compiled = isinstance(layer, convolution.Convolution)
        with torch.no_grad(), full_precision():
            model(images)


def _source(kernel, given: dict) -> ASTSource:
    """The kernel as Triton specialises it for such arguments when it is started."""
    signature, constants, divisible = {}, {}, {}
    for place, parameter in enumerate(kernel.params):
        value = given[parameter.name]
        if parameter.is_constexpr or isinstance(value, int) and value == 1:
            signature[parameter.name], constants[(place,)] = "constexpr", value
            continue
        signature[parameter.name] = TYPES[value.dtype] if isinstance(value, Tensor) else "i32"
        if isinstance(value, Tensor) or value % 16 == 0:
            divisible[(place,)] = [["tt.divisibility", 16]]
    return ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=divisible)


def _usage(found) -> dict:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(found.asm["cubin"])
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
    used = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", said.stdout + said.stderr))
    spilled = int(used["STACK"]) + int(used["LOCAL"])
    return {"registers": int(used["REG"]), "stack": spilled, "shared": found.metadata.shared / 1024}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=int, default=90, choices=SHARED, help="compute capability, times ten (90)")
    parser.add_argument("--batch", type=int, default=125, help="images of a minibatch (125)")
    options = parser.parse_args()

    def tell(row: dict) -> None:
        warps, registers, shared = row["warps"], row["registers"], row["shared"]
        programs = REGISTERS // (32 * warps * -(-registers // 8) * 8)
        programs = min(programs, int(SHARED[options.arch] // (shared + 1)))  # a KB is the system's
        used = f"{warps} warps {registers:4} registers {row['stack']:3} B of stack {shared:6.1f} KB shared"
        how = " ".join(f"{name}={row[name]}" for name in SHAPE if name in row)
        print(f"{row['kernel']:18} {used} {programs:3} at once  {how}", flush=True)

    compiled(tell, batch=options.batch, arch=options.arch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
