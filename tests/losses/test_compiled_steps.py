"""Steps that `torch.compile` has compiled: each loss is called as it is."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")

from test_loss_properties import ALL_MEANS, every_mean  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.slow
@every_mean
def test_a_compiled_step_is_the_step(loss: Any) -> None:
    torch._dynamo.reset()
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(3, 20, 4, generator=generator)
    labels = torch.randint(0, 4, (3, 20), generator=generator)
    network = torch.nn.Linear(4, 1)

    def step() -> Any:
        return 3 * loss(network(features).squeeze(2), labels)

    outcomes = []
    for called in (step, torch.compile(step, backend="eager")):
        network.zero_grad()
        torch.manual_seed(1)
        value = called()
        value.backward()
        outcomes.append((value.detach(), network.weight.grad.clone()))
    torch.testing.assert_close(*outcomes, rtol=0, atol=0)
    assert len(ALL_MEANS) > 10
