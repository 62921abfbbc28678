"""The CPR paper's model as published: the preset ``published`` of `buran.modeling.tensor.CPRegressor`.

Edward Hutter, Edgar Solomonik: Application Performance Modeling via Tensor Completion. SC '23: Proceedings of the
International Conference for High Performance Computing, Networking, Storage and Analysis, 2023. Numbers of sections,
equations and figures here are those of its preprint, arXiv:2210.10184, https://doi.org/10.48550/arXiv.2210.10184.

=========================================================  =========================================================
in the paper                                               here
=========================================================  =========================================================
Section 5.1, Figure 2 left: sub-intervals and categories   `cells.make_mode`
Section 5.1, Figure 2 left: mean times of grid-cells       `cells.fill_cells`
Eq. 2: CP decomposition                                    `completion.rows_product`, summed over the rank
Eq. 3 with least squares of logarithms, Section 5.2        `completion.complete`
Section 4.2.1: alternating least squares (ALS)             `completion.complete`
Eq. 5, and with e^t in Section 5.2; Figure 2 right         `cells.predict_log_linear`
Eq. 3 with MLogQ2, Section 5.3                             `completion.complete_positive`
Eq. 4, Section 4.2.2: Newton's method (AMN) and barrier    `completion.complete_positive`
Section 5.3: rank-1 factorisation of each factor           `model.fit_published`
Section 3.2: regression splines (MARS)                     `model.fit_hinges`
Section 5.3, last equation: estimates beyond the range     `model.predict_grown`
Section 6.0.4: choice of cells, rank and lambda            `model.fit_published`
Section 6.0.4: numbers                                     `model`
Figures 3, 4: error over cells and rank                    `buran evaluate tensor`, of the studies
Figures 5, 6, 7: over observations and size                `buran evaluate tensor`, of the studies
Figure 8: extrapolation                                    `buran evaluate tensor --preset extrapolation`
=========================================================  =========================================================

The paper numbers no algorithm. Where ours differs, and why:

- As in the authors' program: the tensor stands on grid points, both ends included, instead of mid-points (the spline
  of the extrapolation on mid-points); Eq. 5 is linear in the values, not in their logarithms; lambda is counted as the
  program does: the ridge is twice as large at the fixed point, and lambda is times all observed elements of the
  tensor, not those of a row.
- A parameter with at most 16 values has a node at each: there is nothing to interpolate.
- Rows without observations become zero, the fixed point of an update that would only change their signs.
- Newton steps keep the curvature and the factors positive, where the loss is not convex and a step would leave the
  barrier; the best sweep counts. Positive factors start at the size of the data: the ridge would slow down those
  that have to make up for much smaller ones.
- At most 12 parameters of a point lie between nodes: each doubles the work of Eq. 5.
- Cells, rank and lambda are chosen on a fifth of the observations, those of the positive tensor on the largest values;
  the paper searches exhaustively, and prints the smallest error on its test set, which a user does not have.
- The spline is a MARS of one variable in numpy, so that no package has to be built; knots keep away from the ends,
  where noise would decide on the slope beyond them, and nodes with few observations do not enter.
- Products of rows are in single precision, for speed; sums over them are solved in double precision.

Figures compared with the authors' program are in docs/evidence/tensor.md.
"""
