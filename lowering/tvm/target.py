"""`tvm.target`: targets by their text, and functions with versions for targets.

Only processors run here. A script may name any target and lower for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

from bound.schedule.schedule import Opened
from intset.errors import InputError
from intset.expr import arguments, shown

HOSTS: Final = ("llvm", "c", "cpu", "stackvm", "hybrid", "ext_dev", "test")
GPUS: Final = tuple("cuda opencl vulkan metal rocm webgpu nvptx gpu cl mtl vpi sdaccel aocl hexagon composite".split())
_DEFAULTS: Final[dict[str, Any]] = {
    **dict.fromkeys(("device_name", "mcpu", "mtriple", "arch"), ""),
    **{name: [] for name in ("libs", "mattr")},
    "model": "unknown",
    "max_num_threads": 1024,
    "thread_warp_size": 32,
    "max_shared_memory_per_block": 49152,
}
_VENDORS: Final = {"nvidia": "cuda", "raspberry-pi": "llvm"}  # Target("nvidia/geforce-rtx-3090")


@dataclass(frozen=True)
class TargetKind:
    """The kind of a target; `name` is the first word of its text."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Target(Opened):
    """A target by its text: `Target("llvm -mcpu=core-avx2")`, a dictionary, or another target.

    Attributes
    ----------
    text: what the script wrote, as one text.
    """

    text: str

    def __init__(self, target: object, host: object = None) -> None:
        if isinstance(target, dict):
            options = (f"-{key}={value}" for key, value in target.items() if key != "kind")
            target = " ".join((str(target.get("kind", "llvm")), *options))
        text = target.text if isinstance(target, Target) else target
        if not isinstance(text, str) or not text.split():
            raise InputError(f"a target is a text such as 'llvm', not {shown(target)}")
        object.__setattr__(self, "text", text)
        if self.kind.name not in (*HOSTS, *GPUS):
            raise InputError(f"the kind of a target is one of {', '.join((*HOSTS, *GPUS))}, not {self.kind}")

    @property
    def kind(self) -> TargetKind:
        word = self.text.split()[0]
        return TargetKind(_VENDORS.get(word.partition("/")[0], word))

    id = kind  # TVM's older name

    @property
    def attrs(self) -> dict[str, str]:
        """The options of the text: `-mcpu=core-avx2` is the entry `mcpu`."""
        words = (word[1:].partition("=") for word in self.text.split()[1:] if word.startswith("-"))
        return {key: value for key, _, value in words}

    @property
    def keys(self) -> list[str]:
        """The words by which schedules of operators are chosen, most specific first."""
        asked = [word for word in self.attrs.get("keys", "").split(",") if word]
        family = ["cuda", "gpu"] if self.kind.name == "cuda" else ["gpu"] if self.kind.name in GPUS else ["cpu"]
        return [*dict.fromkeys((*asked, self.kind.name, *family))]

    def __getattr__(self, name: str) -> Any:
        """An option of the text, or its default."""
        if name not in _DEFAULTS:
            raise AttributeError(name)
        text, default = self.attrs.get(name.removesuffix("_name")), _DEFAULTS[name]
        if isinstance(default, list):
            return [word for word in (text or "").split(",") if word]
        return default if text is None else type(default)(text)

    @property
    def supports_integer_dot_product(self) -> bool:
        """Whether the text says so, with the number 1."""
        return self.attrs.get("supports_integer_dot_product", "0") == "1"

    @property
    def runs_here(self) -> bool:
        """Whether it is a processor."""
        return self.kind.name in HOSTS

    @classmethod
    def current(cls, allow_none: bool = True) -> Target | None:
        """The target of the innermost `with` block."""
        found: Target | None = super().current()
        if found is None and not allow_none:
            raise InputError("no target is set: write `with tvm.target.Target('llvm'):` around the call")
        return found

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Target({self.text!r})"


_X86: Final = {  # what a processor of -mcpu has; each level includes those before
    "sse4.2": "silvermont slm goldmont goldmont-plus tremont nehalem corei7 westmere bdver1 bdver2 bdver3 x86-64-v2",
    "avx": "sandybridge corei7-avx ivybridge core-avx-i",
    "avx2": "haswell core-avx2 broadwell skylake bdver4 znver1 znver2 znver3 x86-64-v3",
    "avx512": "skylake-avx512 skx knl knm x86-64-v4 cannonlake",
    "vnni": "cascadelake icelake-client icelake-server rocketlake tigerlake cooperlake alderlake",
    "amx": "sapphirerapids",
}
_LEVEL: Final = {name: k for k, names in enumerate(_X86.values()) for name in names.split()}


def _has(feature: str) -> Callable[..., bool]:
    """A test of processors: of the one named, else of the current target's."""

    def test(mcpu: object = None) -> bool:
        target = Target.current()
        name = mcpu if isinstance(mcpu, str) else (target.mcpu if target else "")
        if feature == "avx512" and name == "alderlake":
            return False
        return _LEVEL.get(name, -1) >= [*_X86].index(feature)

    return test


def _lanes() -> int:
    """Numbers of 32 bits in a vector register of the current target."""
    return 16 if _has("avx512")() else 8 if _has("avx2")() else 4


x86 = SimpleNamespace(  # TVM's modules of these names
    **{f"target_has_{name.replace('.', '')}": _has(name) for name in _X86},
    target_has_sse41=_has("sse4.2"),
    get_simd_32bit_lanes=_lanes,
    get_x86_simd_32bit_lanes=_lanes,
    target_has_features=lambda features, target=None: False,  # of LLVM
)
codegen = SimpleNamespace(
    llvm_lookup_intrinsic_id=lambda name: 0,  # no intrinsic of LLVM is known
    llvm_version_major=lambda allow_none=False: 0,
    llvm_get_vector_width=lambda target=None: _lanes() * 32,
    target_has_features=x86.target_has_features,
)


def _named(name: str) -> Callable[..., Target]:
    def target(*options: str, **fields: object) -> Target:
        texts = [arguments.of_kind(str, part, "an option of a target", "a text") for part in options]
        words = " ".join(texts).split()
        return Target(" ".join((name, *(w for w in words if w.startswith("-")))))

    return target


cuda, rocm, mali, opencl, vulkan = map(_named, ("cuda", "rocm", "opencl", "opencl", "vulkan"))
arm_cpu, intel_graphics, llvm, hexagon = map(_named, ("llvm", "opencl", "llvm", "hexagon"))


create, current_target = Target, Target.current  # TVM's older names


@dataclass(eq=False)
class GenericFunction:
    """A function with versions for targets: a call takes the version of the current target, else the default.

    Attributes
    ----------
    default: the version without a target; `None` refuses.
    versions: by key of a target.
    """

    default: Callable[..., Any] | None = None
    versions: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def register(self, keys: str | list[str], func: Any = None, override: bool = True) -> Callable[..., Any]:
        """Add a version for one or several keys; a decorator without `func`."""

        def add(version: Callable[..., Any]) -> Callable[..., Any]:
            self.versions.update(dict.fromkeys([keys] if isinstance(keys, str) else keys, version))
            return version

        return add if func is None else add(func)

    def set_default(self, func: Callable[..., Any], allow_override: bool = False) -> None:
        self.default = func

    def get_packed_func(self) -> GenericFunction:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        target = Target.current()
        keys = target.keys if target else ()
        found = next((self.versions[key] for key in keys if key in self.versions), self.default)
        if found is None:
            raise InputError(f"the function has no version for the target {target}")
        return found(*args, **kwargs)


def override_native_generic_func(name: str) -> Callable[[Callable[..., Any]], GenericFunction]:
    """Decorate the default version of a function with versions for targets."""
    return lambda func: GenericFunction(func)


GenericFunc = generic_func = GenericFunction


def get_native_generic_func(name: str) -> GenericFunction:
    """A function with versions for targets, without a default."""
    return GenericFunction()
