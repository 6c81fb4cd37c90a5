// The normal distribution between two bounds: masses and draws.
#pragma once

namespace muster::tune {

/// log of the standard normal mass of [low, high], where low <= 0 <= high; either may be infinite.
double log_central_mass(double low, double high);

/// The number below which a share `u`, in (0, 1), of N(centre, width²) between low and high lies;
/// low <= centre <= high, and either bound may be infinite.
double truncated_normal_quantile(double u, double centre, double width, double low, double high);

}  // namespace muster::tune
