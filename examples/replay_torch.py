"""Learn CartPole with PyTorch from prioritized replay: a double DQN with 3-step targets."""

from program import Course, add_plot, make_parser, parse, refuse_without, run

try:
    import gymnasium as gym
    import torch
    from torch.nn import Linear, ReLU, Sequential
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    from cogrs import ReplayMemory
    from cogrs.torch import as_tensors
except ImportError as missing:
    refuse_without(missing, "torch gymnasium, and cogrs")

NUM_ENVS, WINDOW = 16, 100  # WINDOW: episodes in the mean return that is compared with the goal


def learn(memory, net, target, optimizer):
    """Learn from one batch, and give its errors back to the memory as priorities."""
    batch = as_tensors(memory.sample(64, nstep_return=True, beta=0.4))
    state, following = batch.prev.state[:, 0], batch.next.state[:, 0]  # a stack of one frame
    best = net(following).argmax(1, keepdim=True)
    goal = batch.nstep_return + batch.nstep_discount * target(following).gather(1, best)[:, 0]
    error = net(state).gather(1, batch.prev.action.long()[:, None])[:, 0] - goal.detach()
    optimizer.zero_grad()
    (batch.importance_weight * error**2).mean().backward()
    optimizer.step()
    target.update_parameters(net)
    memory.update_priority(batch.id, error.detach().abs())


def main():
    """Learn until the goal is reached; return the exit code."""
    args = parse(add_plot(make_parser(__doc__)))
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # nets this small gain nothing from more
    course, steps = Course(args, WINDOW), 0
    envs = gym.make_vec("CartPole-v1", NUM_ENVS, "sync")
    envs = gym.wrappers.vector.RecordEpisodeStatistics(envs, WINDOW)
    memory = ReplayMemory.from_env(envs, capacity=50_000, n_step=3, seed=args.seed)
    recorder = memory.recorder(NUM_ENVS)
    net = Sequential(Linear(4, 128), ReLU(), Linear(128, 128), ReLU(), Linear(128, 2))
    target = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    optimizer = torch.optim.Adam(net.parameters(), 5e-4)
    obs, _ = envs.reset(seed=args.seed)
    while course.goes_on(envs.return_queue, steps):
        explore = torch.rand(NUM_ENVS) < max(0.02, 1 - steps / 10_000)  # epsilon-greedy
        greedy = net(torch.as_tensor(obs)).argmax(1)
        action = torch.where(explore, torch.randint(2, (NUM_ENVS,)), greedy).numpy()
        next_obs, reward, terminated, truncated, _ = envs.step(action)
        recorder.add(obs, action, reward, terminated, truncated, next_obs)
        obs, steps = next_obs, steps + NUM_ENVS
        for _ in range(4 if memory.num_sampleable >= 1_000 else 0):
            learn(memory, net, target, optimizer)
    return course.end(envs.return_queue, f"DQN, CartPole-v1, seed {args.seed}")


if __name__ == "__main__":
    run(main)
