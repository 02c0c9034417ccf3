"""A plot of the returns of episodes."""

from matplotlib.figure import Figure


def save_curve(returns, window, goal, title, path):
    """Plot the return of each episode, and the mean of the last `window` returns."""
    latest = [returns[max(0, at + 1 - window) : at + 1] for at in range(len(returns))]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(returns, ".", label="one episode")
    axes.plot([sum(each) / len(each) for each in latest], label=f"mean of the last {window}")
    axes.axhline(goal, color="0.4", linestyle="--", label=f"goal {goal:g}")
    axes.set(xlabel="episode", ylabel="return", title=title)
    axes.legend()
    figure.savefig(path, dpi=150)
