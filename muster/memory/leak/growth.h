// Whether a series of numbers grows for good.
#pragma once

#include <cstdint>
#include <span>

namespace muster::memory {

/// The median of the slopes between all pairs of values, per step; 0 of fewer than two. A third of
/// the values may be anything. Source: Theil 1950; Sen 1968.
double median_slope(std::span<const int64_t> values);

/// Whether at least `share` of the steps between neighbours go up.
bool mostly_rises(std::span<const int64_t> values, double share);

/// Whether the whole series has grown by at least half of what its median slope promises: false of a
/// sawtooth, which rises in most steps and falls back in one.
bool keeps_its_growth(std::span<const int64_t> values);

/// Whether the medians of five equal parts go up from each to the next: true of a noisy line, false
/// of a single step and of what flattens out. False of fewer than ten values.
bool rises_in_fifths(std::span<const int64_t> values);

/// Of the last `ages` iterations before the `youngest` ones, at least `share` have survivors.
/// `born`: bit i, whether something that was born i iterations ago is alive.
bool survivors_throughout(uint64_t born, int youngest, int ages, double share);

}  // namespace muster::memory
