"""The raters that a reader plays with: limits, and the control in a kernel of its own."""

import nbformat
import pytest
from nbclient import NotebookClient

from hs2lib.collect.raters import Raters, simulate
from hs2lib.stats import chance
from hs2lib.stats.chance import Rule


def test_without_noise_all_agree_and_no_label_is_far_off():
    outcome = simulate(Raters(noise=0, careless=0))
    assert all(kappa == pytest.approx(1) for kappa in outcome.kappas.values())
    assert outcome.asked == 3 and outcome.removed == 0 and outcome.error <= 0.5


def test_who_never_reads_agrees_by_choice_alone():
    outcome = simulate(Raters(careless=1))
    assert abs(outcome.kappas[chance.FIRST]) < 0.05 and outcome.kappas[chance.KEPT] > 0.4
    assert outcome.error > 1
    lost = simulate(Raters(careless=1, lost=1))
    assert lost.asked == 3 and lost.removed > 20
    assert lost.kappas[chance.RELEASED] > 0.2 > abs(lost.kappas[chance.KEPT])


def test_more_than_can_be_asked_is_refused():
    with pytest.raises(ValueError, match="ask from 2 to 7 annotators, got first 3 and most 9"):
        simulate(Raters(rule=Rule(most=9)))


CELLS = [
    """
from time import process_time
from hs2lib.collect.raters import Control
control = Control()
control""",
    """
def move(name, value):
    before = control.view.value
    began = process_time()
    getattr(control, name).value = value
    assert process_time() - began < 1, name
    assert control.view.value != before, name

move("careless", 100)
move("noise", 1.5)
move("lost", 30)
move("first", 4)
move("n_keep", 7)
move("max_spread", 1)
move("most", 7)
move("recruit_above", 0)
control.first.value = 7
control.most.value = 2  # fewer than are asked first
assert control.raters().rule.most == 7""",
]


@pytest.mark.slow
def test_the_control_answers_in_a_kernel():
    """Each slider moves the result, in less than a second."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown = notebook.cells[0].outputs[0].data
    assert "application/vnd.jupyter.widget-view+json" in shown
