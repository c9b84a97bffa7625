"""Options of a run of a model with all defaults filled in."""


def resolve(model, data, *arguments, **options):
    """Return the resolved options of a fit of `model`, such as `simplex_jax._src.models.hdp`."""
    given = model.Options(*arguments, **options)
    return model.MODEL.resolve_options(model.MODEL.as_data(data), None, given)
