"""Writes golden.json beside this file: the order of computation of torch.distributed.pipelining's schedules.

C++ follows in tests/pipeline/schedules/schedule_golden_test.cpp. A case has "orders": one text per rank, actions as PyTorch writes them
("2F0": stage 2, forward, micro-batch 0) without its idle slots and without REDUCE_GRAD. No process group is needed: a schedule's
lists are functions of the sizes alone, so the classes are made without their constructors.
"""

import itertools
import json
from pathlib import Path

from torch.distributed.pipelining import schedules as s

RANKS = range(2, 9)
MICRO_BATCHES = (2, 3, 4, 5, 6, 7, 8, 12, 15, 16)
COMPUTE = (s.FORWARD, s.FULL_BACKWARD, s.BACKWARD_INPUT, s.BACKWARD_WEIGHT)


def bare(cls, ranks, local, micro_batches):
    schedule = cls.__new__(cls)
    schedule.pp_group_size, schedule.n_local_stages = ranks, local
    schedule._num_stages = schedule.num_stages = ranks * local
    schedule._n_microbatches = micro_batches
    schedule.number_of_rounds = max(1, micro_batches // ranks)
    schedule.microbatches_per_round = micro_batches // schedule.number_of_rounds
    return schedule


def single(cls):
    return lambda ranks, local, micro_batches: bare(cls, ranks, 1, micro_batches)._get_pipeline_order()


def multi(cls):
    def order(ranks, local, micro_batches):
        schedule = bare(cls, ranks, local, micro_batches)
        return {rank: schedule._calculate_single_rank_operations(rank) for rank in range(ranks)}
    return order


def whole_rounds(ranks, micro_batches):
    return micro_batches % max(1, micro_batches // ranks) == 0


CASES = [
    ("gpipe", single(s.ScheduleGPipe), (1,), lambda p, m: True),
    ("1f1b", single(s.Schedule1F1B), (1,), lambda p, m: m >= p),
    ("interleaved", multi(s.ScheduleInterleaved1F1B), (2, 3), whole_rounds),
    ("zb1p", multi(s.ScheduleInterleavedZeroBubble), (1, 2), whole_rounds),
    ("zbv", multi(s.ScheduleZBVZeroBubble), (2,), lambda p, m: True),
]


def main():
    cases = []
    for name, order, locals_, takes in CASES:
        for local, ranks, micro_batches in itertools.product(locals_, RANKS, MICRO_BATCHES):
            if not takes(ranks, micro_batches) or (ranks > 4 and micro_batches in (3, 5, 6, 7)):
                continue
            lists = order(ranks, local, micro_batches)
            cases.append({"schedule": name, "ranks": ranks, "stages": ranks * local, "micro_batches": micro_batches, "orders": [
                " ".join(str(a) for a in lists[rank] if a is not None and a.computation_type in COMPUTE) for rank in range(ranks)]})
    text = json.dumps({"cases": cases}, indent=None, separators=(",", ":"))
    (Path(__file__).parent / "golden.json").write_text(text.replace('{"schedule"', '\n{"schedule"') + "\n")


if __name__ == "__main__":
    main()
