"""SGGMC on applications its paper names: truncated distributions, Stiefel, vMF mixtures.

    python benchmarks/papers/sggmc_applications.py [--quick] [--out FOLDER] [--seed N]

Liu, Zhu and Song (2016), sections 1 and 3.1. Each runs with batches and with all data (GMC,
which is exact), against the alternatives:

- the mean of Gaussian data in the plane, known to be in the unit disc. The disc is half a sphere:
  x = (y_1, y_2) of a unit vector y of R^3, with the density times |y_3| (Lan, Zhou and Shahbaba
  2014, cited there). Truth by quadrature; total variations over cells of 0.05 x 0.05.
- Bayesian matrix completion (Song and Zhu 2016, cited there): a matrix U diag(s) V' of rank 3 with
  noise, U and V on Stiefel manifolds of rank 5, a third of the entries observed. Root mean squared
  errors of the unseen entries without their noise, against the best point estimate found (singular
  values shrunk by the amount that is best for the unseen entries themselves).
- a mixture of three von Mises-Fisher distributions on the sphere in R^5, with means, concentrations
  and weights on the product of spheres, the line and the simplex. Errors of the posterior means,
  against those of EM.
"""

import time
from pathlib import Path

import click
import common
import sggmc_completion
import sggmc_disc
import sggmc_mixture


@click.command(help=__doc__.splitlines()[0])
@common.options("sggmc_applications")
def main(quick: bool, out: Path, seed: int) -> None:
    started = time.perf_counter()
    figure, axes = common.figure(3, width=4.2, height=3.6)
    rows, settings = [], {"seed": seed}
    for axis, part in zip(axes, (sggmc_disc, sggmc_completion, sggmc_mixture), strict=True):
        result, told = part.run(axis, quick, seed)
        rows += result
        settings[part.NAME] = told
    common.write(out, rows, figure, settings, started)


if __name__ == "__main__":
    main()
