"""Plots of returns."""

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


def save_curves(curves, goal, title, path):
    """Plot mean returns at steps: lists of pairs, by the label of their curve."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for label, pairs in curves.items():
        axes.plot(*zip(*pairs, strict=True) if pairs else ([], []), label=label)
    axes.axhline(goal, color="0.4", linestyle="--", label=f"goal {goal:g}")
    axes.set(xlabel="steps", ylabel="mean return", title=title)
    axes.legend()
    figure.savefig(path, dpi=150)
