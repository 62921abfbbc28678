"""PBS, Grid Engine, LSF and Flux, which all print tables of jobs."""
