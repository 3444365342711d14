"""Arithmetic on what `cost` returns."""


def add_costs(costs):
    """The sum of cost dictionaries."""
    total = {"parameters": 0, "multiply_adds": 0, "state_elements": 0}
    for cost in costs:
        total = {key: total[key] + cost[key] for key in total}
    return total


def norm_cost(hidden_dim):
    """A layer norm's scale and offset; its work per token is not counted."""
    return {"parameters": 2 * hidden_dim, "multiply_adds": 0, "state_elements": 0}
