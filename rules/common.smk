# Functions of the rules: which files a rule waits for. No rule lives here.

BUNDLES = {}  # of the plans that were read


def plan_of(campaign, iteration):
    """Return an iteration's plan, once it is made; what its jobs read is there then, even if it was lost."""
    checkpoints.plan.get(campaign=campaign, iteration=iteration)
    made = SESSION.layout.plan(campaign, int(iteration)).stat().st_mtime_ns
    return plan_as_made(campaign, int(iteration), made)


@cache
def plan_as_made(campaign, iteration, made):
    """Return a plan that was made at some time; large ones take a while to read."""
    plan = plan_in_force(SESSION.layout, campaign, iteration)
    BUNDLES.update((bundle.id, bundle) for bundle in plan.bundles)
    return plan


def bundle_of(bundle):
    """Return a bundle: of a plan that was read, else from its specification."""
    return BUNDLES.get(bundle) or Bundle.read(SESSION.layout.bundle_spec(bundle))


def jobs_of(batch):
    """Return the bundles of each job of a batch."""
    return [[bundle_of(bundle) for bundle in job] for job in jobs_in(SESSION.layout, batch)]


def last_iteration(campaign):
    """Walk the plans until one says that the campaign is done; return its number."""
    iteration = 0
    while not plan_of(campaign, iteration).done:
        iteration += 1
    return iteration


def builds_of(bundles):
    """Builds that some bundles run, in order."""
    builds = {run.build for bundle in bundles for run in bundle.runs}
    return [PATHS.build_pointer(build) for build in sorted(builds)]


def builds_of_bundle(wildcards):
    """Builds that a bundle runs, in order."""
    return builds_of([bundle_of(wildcards.bundle)])


def builds_of_batch(wildcards):
    """Builds that the jobs of a batch run."""
    return builds_of([bundle for job in jobs_of(wildcards.batch) for bundle in job])


@cache
def request_of_bundle(bundle):
    """What a bundle's job asks the scheduler for."""
    return engine_resources(job_request(SESSION, bundle_of(bundle)))


@cache
def request_of_batch(batch):
    """What each job of a batch asks the scheduler for."""
    return engine_resources(batch_request(SESSION, jobs_of(batch)))


def in_arrays():
    """Tell whether the executor takes many jobs for one: ours does, and that of this machine."""
    return workflow.local_exec or workflow.executor_plugin.name == "buran"


def measure_resources(request):
    """Resources of measurements: those that the campaign file decides."""

    def resource(name):
        return lambda wildcards: request(wildcards[-1]).get(name, "")

    return {name: resource(name) for name in resource_names(SESSION)}


def measured(plan):
    """What the measurements of a plan leave behind: of each bundle, or of the jobs that it shares with others."""
    return division_of(SESSION, plan, in_arrays=in_arrays()).pointers(PATHS, plan)


def bundles_so_far(wildcards):
    """Measurements of all iterations up to this one."""
    return [
        pointer
        for iteration in range(int(wildcards.iteration) + 1)
        for pointer in measured(plan_of(wildcards.campaign, iteration))
    ]


def previous_models(wildcards):
    """Models that a plan or a filter is made from: none for the first plan."""
    iteration = int(wildcards.iteration)
    return PATHS.models(wildcards.campaign, iteration - 1) if iteration else []


def refined_filter(wildcards):
    """Filter that the models suggest for a plan; for the first the one that the campaign file asks for, if it does."""
    iteration = int(wildcards.iteration)
    wanted = iteration or starts_by_itself(SESSION)
    return PATHS.filter(wildcards.campaign, iteration) if wanted else []


def graph_of_start(wildcards):
    """The build whose call graph the first filter is chosen from."""
    spec = None if int(wildcards.iteration) else start_build(SESSION)
    if spec is None:
        return []
    write_build_spec(SESSION.layout, spec)
    return PATHS.build_pointer(spec.hash)


def final_models(wildcards):
    """Models of the last iteration that measured anything."""
    return PATHS.models(wildcards.campaign, last_iteration(wildcards.campaign) - 1)


def final_plan(wildcards):
    """The plan that ended the campaign."""
    return PATHS.plan(wildcards.campaign, last_iteration(wildcards.campaign))
