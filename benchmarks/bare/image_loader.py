"""Measure the rates at which programs read JPEGs.

    python -m benchmarks.bare.image_loader turbo|eighth|pillow|torchvision FILE_LIST SECONDS WORKERS

* turbo: simplejpeg decodes every whole image into the same buffer.
* eighth: simplejpeg decodes every image at 1/8 of its size. The time is little more than that of
  entropy decoding, so no decoder of whole files is faster at any scale.
* pillow, torchvision: torch's DataLoader with torchvision v2 transforms (random resized crop
  without antialias, flip). The named library decodes the images.

For each line on stdin, the program measures a round and prints the rates as JSON. If WORKERS is 2,
turbo and eighth run two independent processes, and the program prints the sum of the two rates. The
sum is the maximum rate of two cores. This program does not import the suite.
"""

import subprocess
import sys

from benchmarks.bare.rounds import WARM_UP_SECONDS, answer

kind, listing, seconds, workers = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
with open(listing) as file:
    paths = file.read().splitlines()


def turbo():
    import numpy as np
    import simplejpeg

    buffer = np.empty(64 << 20, np.uint8)
    side = 1 if kind == "eighth" else 0
    while True:
        for path in paths:
            with open(path, "rb") as file:
                simplejpeg.decode_jpeg(file.read(), min_height=side, min_width=side, buffer=buffer)
            yield 1


def loader():
    import torch
    from PIL import Image
    from torchvision.io import ImageReadMode, decode_image, read_file
    from torchvision.transforms import v2

    torch.set_num_threads(1)
    steps = [
        v2.RandomResizedCrop(224, (0.05, 1.0), (0.75, 1.33), antialias=False),
        v2.RandomHorizontalFlip(),
    ]
    transform = v2.Compose([*steps, v2.PILToTensor()] if kind == "pillow" else steps)

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 30

        def __getitem__(self, index):
            path = paths[index % len(paths)]
            if kind == "pillow":
                with Image.open(path) as image:
                    return transform(image.convert("RGB"))
            return transform(decode_image(read_file(path), ImageReadMode.RGB))

    for batch in torch.utils.data.DataLoader(
        Images(), 32, num_workers=workers, prefetch_factor=4 if workers else None
    ):
        yield len(batch)


stream = turbo() if kind in ("turbo", "eighth") else loader()
# The workers of a DataLoader have filled their queues, so no warm-up is needed.
whole = kind in ("turbo", "eighth")
second = None
if whole and workers == 2:
    command = [
        sys.executable,
        "-m",
        "benchmarks.bare.image_loader",
        kind,
        listing,
        str(seconds),
        "0",
    ]
    second = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    second.stdout.readline()
answer(stream, 8, seconds, 0.0 if workers and not whole else WARM_UP_SECONDS, second)
