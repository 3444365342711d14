"""Arithmetic on the dictionaries that `TokenMixer.cost` and its like return."""


def add_costs(costs):
    """Returns the sum of cost dictionaries."""
    total = {"parameters": 0, "multiply_adds": 0, "state_elements": 0}
    for cost in costs:
        total = {key: total[key] + cost[key] for key in total}
    return total


def norm_cost(hidden_dim):
    """Returns the cost of a layer norm: scale and offset; its work per token is not counted."""
    return {"parameters": 2 * hidden_dim, "multiply_adds": 0, "state_elements": 0}
