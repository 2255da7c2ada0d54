"""Packed functions for graph tests."""

from __future__ import annotations

from lowering import Function, IndexMap, parse_nest, with_layouts

TILES = IndexMap(lambda i: [i // 4, i % 4], (14,))
WIDE = IndexMap(lambda i: [i // 8, i % 8], (14,))


def _shape(layout: IndexMap | None) -> str:
    return "14" if layout is None else ", ".join(map(str, layout.new_shape))


def _loops(layout: IndexMap | None, k: int) -> tuple[str, str, str]:
    """Source text of loops over a layout, element indices and validity condition."""
    if layout is None:
        return f"    for i{k} in [0, 14):\n        ", f"i{k}", "True"
    rows, width = layout.new_shape
    loops = f"    for i{k} in [0, {rows}):\n        for j{k} in [0, {width}):\n            "
    return loops, f"i{k}, j{k}", f"i{k} * {width} + j{k} < 14"


def elementwise(
    name: str,
    value: str,
    layout: IndexMap | None = TILES,
    dtype: str = "int32",
    guarded: bool = False,
    undef: bool = False,
) -> Function:
    """Build an elementwise function from an expression over `A` and optionally `C`.

    Parameters
    ----------
    guarded: skip padding elements.
    undef: overwrite output padding with `undef()`.
    """
    shape = _shape(layout)
    inputs = ["A", "C"] if "C" in value else ["A"]
    loops, at, valid = _loops(layout, 0)
    said = value.replace("A", f"A[{at}]").replace("C", f"C[{at}]")
    step = f"B[{at}] = {said}"
    body = loops + (f"if {valid}:\n                {step}" if guarded else step)
    if undef:
        again, at, valid = _loops(layout, 1)
        body += f"\n{again}if not ({valid}):\n                B[{at}] = undef()"
    head = ", ".join(f"{t}: {dtype}[{shape}]" for t in (*inputs, "B"))
    f = parse_nest(f"def {name}({head}):\n{body}\n")
    return f if layout is None else with_layouts(f, dict.fromkeys((*inputs, "B"), layout))


def reduction(
    name: str, start: str, step: str, pad: str | None = None, layout: IndexMap | None = TILES, dtype: str = "int32"
) -> Function:
    """Build a reduction `B = step(B, A)`; assumes padding equal to `pad`, or skips it if `None`."""
    loops, at, valid = _loops(layout, 0)
    said = step.replace("B", "B[0]").replace("A", f"A[{at}]")
    body = f"    B[0] = {start}\n{loops}"
    if layout is not None and pad is not None:
        before, there, inside = _loops(layout, 1)
        body = f"{before}assume {inside} or A[{there}] == {pad}\n{body}B[0] = {said}"
    else:
        body += f"B[0] = {said}" if layout is None else f"if {valid}:\n                B[0] = {said}"
    f = parse_nest(f"def {name}(A: {dtype}[{_shape(layout)}], B: {dtype}[1]):\n{body}\n")
    return f if layout is None else with_layouts(f, {"A": layout})


ADDONE = elementwise("addone", "A + 1")
TWICE = elementwise("twice", "A * 2")
ODD = elementwise("odd", "A * 2 + 1")
TOTAL = reduction("total", "0", "B + A", "0")
PRODUCT = reduction("product", "1", "B * A", "1")
LARGEST = reduction("largest", "-2147483648", "max(B, A)", "-2147483648")
