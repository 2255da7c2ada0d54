"""The tables of rules, by kind. One line each; `tests/intset/simplify/test_rules.py` proves every line by itself.

Read `pattern`, `result`, then the conditions. What a side condition asks is decided under what is known where the
pattern stands. A result must be defined, and equal, wherever its pattern is defined: what stands under a branch stays
under it.
"""

from __future__ import annotations

from typing import Final

from intset.expr.build import ceildiv, select, truncdiv, truncmod
from intset.expr.build import maximum as max_
from intset.expr.build import minimum as min_
from intset.expr.node import const
from intset.simplify.pattern import A, B, P, Q, R, Rule, Table, W, X, Y, Z

LATTICE: Final = Table((
    Rule("min of maxima with a common side", min_(max_(X, Y), max_(X, Z)), max_(X, min_(Y, Z))),
    Rule("max of minima with a common side", max_(min_(X, Y), min_(X, Z)), min_(X, max_(Y, Z))),
    Rule("min of minima with a common side", min_(min_(X, Y), min_(X, Z)), min_(min_(Y, Z), X)),
    Rule("max of maxima with a common side", max_(max_(X, Y), max_(X, Z)), max_(max_(Y, Z), X)),
    Rule("product of min and max", min_(X, Y) * max_(X, Y), X * Y),
    Rule("min of quotients", min_(X // Y, Z // Y), min_(X, Z) // Y, (Y > 0,)),
    Rule("max of quotients", max_(X // Y, Z // Y), max_(X, Z) // Y, (Y > 0,)),
    Rule("min of quotients, divisor < 0", min_(X // Y, Z // Y), max_(X, Z) // Y, (Y < 0,)),
    Rule("max of quotients, divisor < 0", max_(X // Y, Z // Y), min_(X, Z) // Y, (Y < 0,)),
    Rule("min of truncated quotients", min_(truncdiv(X, Y), truncdiv(Z, Y)), truncdiv(min_(X, Z), Y), (Y > 0,)),
    Rule("max of truncated quotients", max_(truncdiv(X, Y), truncdiv(Z, Y)), truncdiv(max_(X, Z), Y), (Y > 0,)),
    Rule("min of ceilings", min_(ceildiv(X, Y), ceildiv(Z, Y)), ceildiv(min_(X, Z), Y), (Y > 0,)),
    Rule("max of ceilings", max_(ceildiv(X, Y), ceildiv(Z, Y)), ceildiv(max_(X, Z), Y), (Y > 0,)),
    Rule("min of products", min_(X * Z, Y * Z), min_(X, Y) * Z, (Z >= 0,)),
    Rule("max of products", max_(X * Z, Y * Z), max_(X, Y) * Z, (Z >= 0,)),
    Rule("min of products, factor <= 0", min_(X * Z, Y * Z), max_(X, Y) * Z, (Z <= 0,)),
    Rule("max of products, factor <= 0", max_(X * Z, Y * Z), min_(X, Y) * Z, (Z <= 0,)),
    Rule("min of multiples and a constant", min_(X * A, B), min_(X, B // A) * A, (A > 0, (B % A).eq(0))),
    Rule("max of multiples and a constant", max_(X * A, B), max_(X, B // A) * A, (A > 0, (B % A).eq(0))),
    Rule("min of negative multiples", min_(X * A, B), max_(X, B // A) * A, (A < 0, (B % A).eq(0))),
    Rule("max of negative multiples", max_(X * A, B), min_(X, B // A) * A, (A < 0, (B % A).eq(0))),
    Rule("absolute value of a negative", abs(-X), abs(X)),
    Rule("absolute value of a product", abs(X * A), abs(X) * A, (A >= 0,)),
    Rule("absolute value of a negative product", abs(X * A), abs(X) * -A, (A < 0,)),
    Rule("absolute value twice", abs(abs(X)), abs(X)),
))  # fmt: skip

CHOICES: Final = Table((
    Rule("equal branches", select(P, X, X), X),
    Rule("negated condition", select(~P, X, Y), select(P, Y, X)),
    Rule("nested, one outcome on both else", select(P, X, select(Q, X, Y)), select(P | Q, X, Y)),
    Rule("nested, one outcome on else and inside", select(P, select(Q, X, Y), Y), select(P & Q, X, Y)),
    Rule("nested, complement inside", select(P, select(Q, X, Y), X), select(P & ~Q, Y, X)),
    Rule("nested, complement behind", select(P, X, select(Q, Y, X)), select(P | ~Q, X, Y)),
    Rule(
        "two choices by one condition in order",
        select(P, select(Q, X, Y), select(Q, X, Z)), select(Q, X, select(P, Y, Z)),
    ),
    Rule("two choices by one condition", select(P, select(Q, X, Y), select(Q, Z, Y)), select(Q, select(P, X, Z), Y)),
    Rule("minimum spelled by <", select(X < Y, X, Y), min_(X, Y)),
    Rule("minimum spelled by <=", select(X <= Y, X, Y), min_(X, Y)),
    Rule("maximum spelled by <", select(X < Y, Y, X), max_(X, Y)),
    Rule("maximum spelled by <=", select(X <= Y, Y, X), max_(X, Y)),
    Rule("either of equals", select(X.eq(Y), X, Y), Y),
    Rule("either of equals, turned", select(X.eq(Y), Y, X), X),
    Rule("other unless equal", select(X.ne(Y), X, Y), X),
    Rule("other unless equal, turned", select(X.ne(Y), Y, X), Y),
    Rule("absolute value spelled by >=", select(X >= 0, X, -X), abs(X)),
    Rule("absolute value spelled by >", select(X > 0, X, -X), abs(X)),
    Rule("absolute value spelled by <", select(X < 0, -X, X), abs(X)),
    Rule("absolute value spelled by <=", select(X <= 0, -X, X), abs(X)),
    Rule("product of a choice and zero", select(P, X, 0) * Y, select(P, X * Y, 0)),
    Rule("common factor of branches", select(P, X * Z, Y * Z), select(P, X, Y) * Z),
    Rule("common divisor of branches", select(P, X // Z, Y // Z), select(P, X, Y) // Z),
    Rule("common modulus of branches", select(P, X % Z, Y % Z), select(P, X, Y) % Z),
    Rule("common dividend of branches", select(P, Z // A, Z // B), Z // select(P, A, B), (A.ne(0), B.ne(0))),
    Rule(
        "common truncating divisor of branches",
        select(P, truncdiv(X, Z), truncdiv(Y, Z)), truncdiv(select(P, X, Y), Z),
    ),
    Rule(
        "common truncating modulus of branches",
        select(P, truncmod(X, Z), truncmod(Y, Z)), truncmod(select(P, X, Y), Z),
    ),
    Rule("common bound of branches, min", select(P, min_(X, Z), min_(Y, Z)), min_(select(P, X, Y), Z)),
    Rule("common bound of branches, max", select(P, max_(X, Z), max_(Y, Z)), max_(select(P, X, Y), Z)),
    Rule("min of choices by one condition", min_(select(P, X, Y), select(P, Z, W)), select(P, min_(X, Z), min_(Y, W))),
    Rule("max of choices by one condition", max_(select(P, X, Y), select(P, Z, W)), select(P, max_(X, Z), max_(Y, W))),
    Rule("product of choices by one condition", select(P, X, Y) * select(P, Z, W), select(P, X * Z, Y * W)),
))  # fmt: skip

CONDITIONS_TABLE: Final = Table((
    Rule("twice negated", ~~P, P),
    Rule("quotient and remainder", ((X // A).eq(B)) & ((X % A).eq(Z)), X.eq(B * A + Z), (Z >= 0, A > Z)),
    Rule("same quotient and remainder", ((X // A).eq(Y // A)) & ((X % A).eq(Y % A)), X.eq(Y)),
    Rule("common condition of alternatives", (P & Q) | (P & R), P & (Q | R), turned=False),
    Rule("common alternative of conditions", (P | Q) & (P | R), P | (Q & R), turned=False),
    Rule("absorbed conjunction", P | (P & Q), P),
    Rule("absorbed disjunction", P & (P | Q), P),
    Rule("negated first of a disjunction", P | (~P & Q), P | Q),
    Rule("negated first of a conjunction", P & (~P | Q), P & Q),
    Rule("minimum equals a side", min_(X, Y).eq(X), X <= Y),
    Rule("minimum differs from a side", min_(X, Y).ne(X), Y < X),
    Rule("maximum equals a side", max_(X, Y).eq(X), X >= Y),
    Rule("maximum differs from a side", max_(X, Y).ne(X), Y > X),
    Rule("maximum equals more than a side", max_(X, A).eq(B), X.eq(B), (B > A,)),
    Rule("maximum differs from more than a side", max_(X, A).ne(B), X.ne(B), (B > A,)),
    Rule("minimum equals less than a side", min_(X, A).eq(B), X.eq(B), (B < A,)),
    Rule("minimum differs from less than a side", min_(X, A).ne(B), X.ne(B), (B < A,)),
    Rule("indicator", select(P, 1, 0).eq(1), P),
    Rule("indicator is not zero", select(P, 1, 0).ne(0), P),
    Rule("indicator is zero", select(P, 1, 0).eq(0), ~P),
    Rule("product is zero", (X * A).eq(0), X.eq(0), (A.ne(0),)),
    Rule("product is not zero", (X * A).ne(0), X.ne(0), (A.ne(0),)),
    Rule("remainder by the factor", (X // Y * Y).eq(X), (X % Y).eq(0)),
    Rule("no remainder by the factor", (X // Y * Y).ne(X), (X % Y).ne(0)),
    Rule("whole multiple reaches it", X // Y * Y >= X, (X % Y).eq(0), (Y > 0,)),
    Rule("whole multiple falls short", X // Y * Y < X, (X % Y).ne(0), (Y > 0,)),
    Rule("absolute value is zero", abs(X).eq(0), X.eq(0)),
    Rule("absolute value is at most 0", abs(X) <= 0, X.eq(0)),
    Rule("absolute value is positive", abs(X) > 0, X.ne(0)),
    Rule("absolute value is not zero", abs(X).ne(0), X.ne(0)),
))  # fmt: skip

QUOTIENTS: Final = Table((
    Rule("divided by itself, //", X // X, const(1)),
    Rule("divided by itself, ceildiv", ceildiv(X, X), const(1)),
    Rule("divided by itself, truncdiv", truncdiv(X, X), const(1)),
    Rule("no remainder by itself, %", X % X, const(0)),
    Rule("no remainder by itself, truncmod", truncmod(X, X), const(0)),
    Rule("multiple divided, //", (X * Z) // Z, X),
    Rule("multiple divided, ceildiv", ceildiv(X * Z, Z), X),
    Rule("multiple divided, truncdiv", truncdiv(X * Z, Z), X),
    Rule("no remainder of a multiple, %", (X * Z) % Z, const(0)),
    Rule("no remainder of a multiple, truncmod", truncmod(X * Z, Z), const(0)),
    Rule("square of 0 or 1", X * X, X, (X >= 0, X <= 1)),
    Rule("product of 0 or 1 and its complement", X * (1 - X), const(0), (X >= 0, X <= 1)),
    Rule("half of a parity and one", (X % 2 + 1) // 2, X % 2),
    Rule("common factor, //", (X * Z) // (Y * Z), X // Y),
    Rule("common factor, %", (X * Z) % (Y * Z), X % Y * Z),
    Rule("common factor, truncdiv", truncdiv(X * Z, Y * Z), truncdiv(X, Y)),
    Rule("common factor, truncmod", truncmod(X * Z, Y * Z), truncmod(X, Y) * Z),
    Rule("common factor, ceildiv", ceildiv(X * Z, Y * Z), ceildiv(X, Y)),
    Rule("truncated twice", truncdiv(truncdiv(X, Y), Z), truncdiv(X, Y * Z)),
    Rule("truncated negative", truncdiv(-X, Y), -truncdiv(X, Y)),
    Rule("truncated remainder of a negative", truncmod(-X, Y), -truncmod(X, Y)),
    Rule("truncated, divisor negative", truncdiv(X, -Y), -truncdiv(X, Y)),
    Rule("truncated remainder, divisor negative", truncmod(X, -Y), truncmod(X, Y)),
    Rule("both negative, //", (-X) // (-Y), X // Y),
    Rule("both negative, %", (-X) % (-Y), -(X % Y)),
    Rule("both negative, truncdiv", truncdiv(-X, -Y), truncdiv(X, Y)),
    Rule("remainder twice, truncmod", truncmod(truncmod(X, Y), Y), truncmod(X, Y)),
    Rule("remainder twice, %", (X % Y) % Y, X % Y),
    Rule("ceiling as a negated floor", -((-X) // Y), ceildiv(X, Y)),
    Rule("floor as a negated ceiling", -ceildiv(-X, Y), X // Y),
    Rule("truncated remainder of a remainder", truncmod(truncmod(X, A), B), truncmod(X, B), (B.ne(0), (A % B).eq(0))),
    Rule("truncated quotient of a multiple", truncdiv(X * A, B), truncdiv(X, B // A), (A > 0, (B % A).eq(0))),
    Rule(
        "truncated remainder of a multiple",
        truncmod(X * A, B), truncmod(X, B // A) * A, (A > 0, (B % A).eq(0), B.ne(0)),
    ),
))  # fmt: skip

BITS: Final = Table((
    Rule("and with itself", X & X, X),
    Rule("or with itself", X | X, X),
    Rule("exclusive or with itself", X ^ X, X - X),
    Rule("complement twice", ~~X, X),
    Rule("and of a part", X & (X & Y), X & Y),
    Rule("or of a part", X | (X | Y), X | Y),
    Rule("and absorbs or", X & (X | Y), X),
    Rule("or absorbs and", X | (X & Y), X),
    Rule("two masks", (X & A) & B, X & (A & B)),
    Rule("two set masks", (X | A) | B, X | (A | B)),
    Rule("two flips", (X ^ A) ^ B, X ^ (A ^ B)),
    Rule("and of complements", ~X & ~Y, ~(X | Y)),
    Rule("or of complements", ~X | ~Y, ~(X & Y)),
    Rule("flipped twice", (X ^ Y) ^ Y, X),
    Rule("common operand, or of ands", (X & Y) | (X & Z), X & (Y | Z)),
    Rule("common operand, and of ors", (X | Y) & (X | Z), X | (Y & Z)),
    Rule("two parts of bits", (X & A) + (X & B), X & (A | B), ((A & B).eq(0),)),
    Rule("all but some bits", X - (X & A), X & ~A),
    Rule("shifted right and back", (X >> A) << A, X & -(const(1) << A), (A >= 0,)),
    Rule("right shifts add up", (X >> A) >> B, X >> (A + B), (A >= 0, B >= 0)),
    Rule("left shifts add up", (X << A) << B, X << (A + B), (A >= 0, B >= 0)),
))  # fmt: skip

ALL: Final = LATTICE + CHOICES + CONDITIONS_TABLE + QUOTIENTS + BITS
