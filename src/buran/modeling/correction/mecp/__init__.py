"""The model error correction procedure (MECP), as published: an analytical model corrected by evolution.

The paper on model error correction for performance models: the communication time of the astrophysics code EVH1 in two
dimensions on an IBM p690. Title page and references are missing in the text we worked from. So authors, venue, year and
DOI are not given here rather than guessed, and formulas lost with them are marked below.

=============================================  ======================================================================
equation, table or figure of the paper          here
=============================================  ======================================================================
Eq. 1 to 4, cases 1 to 4                       `trees.Evolved.evaluate`
objective (formula lost)                       `search.Evolution.errors`
Fig. 1, genetic programming                    `search.next_trees`; the first trees: `trees.Grower.trees`
Fig. 2, a solution as a tree                   `trees.PrefixProgram`; a population of them: `trees.Population`
Fig. 3, genetic algorithm for the parameters   `search.next_parameters`
Fig. 3, both in concert                        `search.Evolution.run`
original model, half of the data each          `trials.fit_original`, `trials.halves`
30 trials, Fig. 4 (best) and 5 (how many)      `trials.run_trials`; `trials.Trials.oracle`, `trials.Trials.better`
Fig. 6 to 9                                    `buran evaluate correction`, of buran-studies
Table 1, settings                              `search.EvolutionTuning`
Table 2, parameters of EVH1 and their bounds   the bundled base model `evh1_2d_reconstructed`
=============================================  ======================================================================

Where ours differs, and why:

- The formula of EVH1's communication time is lost: the bundled base model is our reconstruction.
- The objective is lost: ours is the root mean square of the absolute error, which fits Fig. 6 to 9, better for long
  times than for short ones.
- "Graduated elitist" is not explained: the best 5 % stay, parents' chances fall linearly with their rank.
- Size of trees, range of R and depth of mutations are not given: at most 60 nodes, -10 to 10, 3.
- Operators on parameters are not given: BLX-0.3 and normal steps of 0.1 in the unit box of the bounds, logarithmic
  where the base model says so. "In concert" is read as: each operator acts on the tree or on the parameters.
- "Not fixed in equations (1) and (2)" is read as (3) and (4), as the equations and cases say.
- The result is the trial that is best in training. The paper's, the best on the test half, is reported too.
- A prediction that is not positive is no time, and missing. The paper does not say what it did with these.
- Without a choice case 4 is run, by the paper the most robust of the four.

Nothing else is improved.
"""
