"""The examples of adapters: a module's examples, and the examples of its section in docs/adapters.md."""

import doctest
from types import ModuleType

from tests import ROOT


def check_section(name: str, least: int = 3) -> None:
    """Run the examples of an adapter's section; there are at least so many."""
    section = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8").partition(f"\n## {name}\n")[2]
    section = section.partition("\n## ")[0]
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(doctest.DocTestParser().get_doctest(section.replace("```", ""), {}, name, "docs/adapters.md", 0))
    assert runner.tries >= least and runner.failures == 0


def check_examples(module: ModuleType, name: str = "") -> None:
    """Run the examples of an adapter's docstrings and of its section: `name`, or the module's."""
    check_section(name or module.__name__.rpartition(".")[2])
    ran = doctest.testmod(module)
    assert ran.attempted >= 2 and ran.failed == 0
