"""CUDA graphs of rotating launches, which the sweeps time."""

import measure
import results
import sweep_cells


class Graph:
    """A captured rotation of launches."""

    def __init__(self, torch, launches):
        self._torch = torch
        self._kept = launches  # a replay uses the tensors and workspaces that they own
        stream = measure.warmed_stream(torch, launches)
        self._graph = measure.capture(torch, stream, launches, 1)
        microseconds = [measure.replay(torch, self._graph) for _ in range(2)][-1]
        rounds = results.rounds_for(microseconds)
        if rounds > 1:
            self._graph = measure.capture(torch, stream, launches, rounds)
            measure.replay(torch, self._graph)
        self.launches = rounds * len(launches)
        self.replays = sweep_cells.replays_for(microseconds * rounds)

    def replay_round(self):
        """Enqueues one round. The function that it returns gives the microseconds per launch once the device is
        idle."""
        events = [measure.enqueue(self._torch, self._graph) for _ in range(self.replays)]
        return lambda: results.median([begin.elapsed_time(end) for begin, end in events]) * 1000 / self.launches
