"""`vectorized_boxes.stretch` in LLVM vectors: the only module that generates code for the processor itself.

The compiler would compare codes one by one, since it cannot know that the box and the source do not overlap. Names of llvmlite
are imported one by one, so that a version without them fails here and `vectorized_boxes` uses plain loops.
"""

from __future__ import annotations

from llvmlite.ir import IntType, VectorType  # type: ignore[import-untyped]
from numba import types
from numba.core.cgutils import is_not_null
from numba.extending import intrinsic

from shoal.kernels.compiler import inner
from shoal.kernels.interface import STEP_BYTES

BITS = 8 * STEP_BYTES


@intrinsic
def lanes(typing, array):
    """The number of codes of an array that are compared in one step."""

    def generate(context, builder, signature, arguments):
        return context.get_constant(types.uint64, BITS // array.dtype.bitwidth)

    return types.uint64(array), generate


@intrinsic
def stretch_step(typing, box, low, high, source, first, last):
    """One step of `stretch_by_lanes`, on the codes from these positions on."""

    def generate(context, builder, signature, arguments):
        vector = VectorType(context.get_value_type(box.dtype), BITS // box.dtype.bitwidth)
        align = box.dtype.bitwidth // 8
        compare = builder.icmp_signed if box.dtype.signed else builder.icmp_unsigned

        def pointer(kind, array, at):
            data = context.make_array(kind)(context, builder, array).data
            return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())

        ends = [pointer(box, arguments[0], at) for at in arguments[1:3]]
        news = [builder.load(pointer(source, arguments[3], at), align=align) for at in arguments[4:]]
        olds = [builder.load(end, align=align) for end in ends]
        outside = [compare(sign, new, old) for sign, new, old in zip("<>", news, olds, strict=True)]
        for end, new, old, out in zip(ends, news, olds, outside, strict=True):
            builder.store(builder.select(out, new, old), end, align=align)
        return is_not_null(builder, builder.bitcast(builder.or_(*outside), IntType(vector.count)))

    place = types.uint64
    return types.boolean(box, place, place, source, place, place), generate


@inner(forceinline=True)
def stretch_by_lanes(box, at, width, source, place, gap):
    """`vectorized_boxes.stretch_plainly`, several codes in one step; ``width`` is a multiple of `lanes`."""
    grew = False
    for j in range(0, width, lanes(box)):
        grew |= stretch_step(box, at + j, at + width + j, source, place + j, place + gap + j)
    return grew
