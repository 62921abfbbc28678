# Functions of the rules, which ask the list of steps what each of them makes and needs. No rule lives here.


def plan_of(iteration):
    """Return an iteration's plan, once it is made; what its jobs read is there then, even if it was lost."""
    checkpoints.plan.get(campaign=SESSION.id, iteration=iteration)
    made = SESSION.layout.plan(SESSION.id, iteration).stat().st_mtime_ns
    return plan_as_made(iteration, made)


@cache
def plan_as_made(iteration, made):
    """Return a plan that was made at some time; large ones take a while to read."""
    plan = plan_in_force(SESSION.layout, SESSION.id, iteration)
    COURSE.known.update((bundle.id, bundle) for bundle in plan.bundles)
    return plan


def in_arrays():
    """Tell whether the executor takes many jobs for one: ours does, and that of this machine."""
    return workflow.local_exec or workflow.executor_plugin.name == "buran"


def measuring(plan):
    """What measures a plan: a step for each bundle, or for the jobs that it shares with others."""
    return division_of(SESSION, plan, in_arrays=in_arrays()).steps(plan)


COURSE = Course(SESSION, plan_of, measuring)


def makes(kind, name=""):
    """Files that a step makes; its name is a wildcard."""
    return Step(kind, name).makes(PATHS, "{campaign}")


def needs(kind):
    """Files that a step needs: those that the steps before it make. Its name is the rule's last wildcard."""

    def files(wildcards):
        steps = Step(kind, wildcards[-1]).needs(COURSE)
        return [path for step in steps for path in step.makes(PATHS, SESSION.id)]

    return files


@cache
def request_of(name):
    """What a bundle's job, or each job of a batch, asks the scheduler for."""
    return engine_resources(batch_request(SESSION, COURSE.jobs(name)))


def measure_resources():
    """Resources of measurements: those that the campaign file decides."""

    def resource(name):
        return lambda wildcards: request_of(wildcards[-1]).get(name, "")

    return {name: resource(name) for name in resource_names(SESSION)}
