"""The 162 views against torchvision's own pad, crop and flip."""

import pytest
import torch
from torchvision.transforms import functional as tv

from sgmcmc.data.augment import VIEWS, augment


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (2, 6, 9)])
def test_every_view_is_torchvisions_crop_and_flip(shape):
    image = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    views = augment(image.expand(VIEWS, *shape), torch.arange(VIEWS))
    assert views.dtype == torch.uint8 and views.shape == (VIEWS, *shape)
    padded = tv.pad(image, [4])
    for view in range(VIEWS):
        flip, row, col = view // 81, view % 81 // 9, view % 9
        wanted = tv.crop(padded, row, col, *shape[1:])
        assert torch.equal(views[view], tv.hflip(wanted) if flip else wanted), view
    assert len({bytes(view.contiguous().numpy()) for view in views}) == VIEWS


def test_identity_and_each_image_has_its_own_view():
    images = torch.randint(0, 256, (5, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    assert torch.equal(augment(images, torch.full((5,), 40)), images)
    view = torch.tensor([0, 40, 121, 80, 161])
    together = augment(images, view)
    alone = torch.cat([augment(images[b : b + 1], view[b : b + 1]) for b in range(5)])
    assert torch.equal(together, alone)
    assert torch.equal(together[2], images[2].flip(-1))


def test_floats_pass_too():
    images = torch.rand(4, 1, 8, 8, dtype=torch.float64)
    assert torch.equal(augment(images, torch.tensor([40, 40, 40, 40])), images)
