// The search space: which parameters a trial has, and from where their values come.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/json_fwd.h"
#include "muster/tune/space/domain.h"
#include "muster/tune/space/value.h"

namespace muster::tune {

// Note [Points and values]
// A trial has *values*, one per parameter, which its program sees: {"lr": 0.01, "l1": 64}. Behind
// them is a *point*: one number per *dimension*, which is what searchers deal with. Most parameters
// are one dimension of the same name. A constant has none. A `sample_from` expression has one per
// draw in it ("l1#0", an integer, for "2 ** randint(2, 9)"), so that a searcher models the draw and
// the expression is only evaluated. A grid_search is a dimension that the variants of the grid
// fill. So a searcher never sees text, conditions of parameters or expressions, and nothing of the
// space is lost to it: what has no dimensions although it varies (a C++ function as sample_from)
// makes Space::opaque() name it, and a searcher that learns refuses it.

/// One axis of the space.
struct Dimension {
  std::string name;  ///< the parameter's, or "l1#0" for the first draw of an expression
  Distribution distribution;
  size_t parameter = 0;  ///< which parameter it belongs to
  bool grid = false;     ///< filled by the grid, not drawn
};

/// A number per dimension of a space: the value itself, or the index of a category (also of a
/// grid's values). NaN: the dimension does not apply (its parameter's condition is false).
using Point = std::vector<double>;

/// Values of all parameters, in the order of the space.
using Values = std::vector<Value>;

/// One parameter as it was declared.
struct Parameter {
  std::string name;  ///< dots for nested ones: "optimizer.lr"
  Domain domain;
  std::string when;  ///< a condition on parameters before it, or empty: "optimizer == 'sgd'"
};

/// A checked space. Immutable; any thread.
class Space {
 public:
  Space();  ///< no parameters

  /// {{"lr", loguniform(1e-4, 1e-1)}, {"l1", sample_from("2 ** randint(2, 9)")}}; a constant is
  /// given as itself: {"epochs", 10}. Throws as the other constructor.
  Space(std::initializer_list<std::pair<std::string, Domain>> parameters);

  /// Throws a usage error that starts with `parameter "NAME"` for a name that is empty, given twice
  /// or a prefix of another nested name ("a" beside "a.b"); a condition or expression that does not
  /// parse, names an unknown parameter (nearest name as hint), depends on itself in a cycle (the
  /// cycle is shown), or has no value at one of the points that are tried: random ones, and each
  /// dimension at its ends. Calls no function of sample_from.
  explicit Space(std::vector<Parameter> parameters);

  std::span<const Parameter> parameters() const;
  std::span<const Dimension> dimensions() const;
  std::optional<size_t> index_of(std::string_view parameter) const;

  /// The values at a point. The point has one number per dimension; those of inactive dimensions
  /// are not looked at. Throws a usage error if an expression has no value there (1/0), naming it.
  Values resolve(const Point& point) const;

  /// The first number of `point` that its dimension cannot have, in words: "lr = 3 is none of
  /// loguniform(1e-4, 0.1)"; nothing if all are inside. NaN is nobody's.
  std::optional<std::string> outside(const Point& point) const;

  /// `point` with NaN at every dimension whose parameter does not apply there.
  Point with_conditions(Point point) const;

  /// The dimensions that with_conditions() hangs on: those of parameters that conditions name,
  /// directly or by way of an expression or a condition of theirs. Rising.
  std::vector<size_t> deciding_dimensions() const;

  /// All dimensions that are NaN in `point` drawn independently; the others, and those of the grid,
  /// stay as they are. An empty point is all NaN. Trial `number`'s draws come from a stream of its
  /// own (counter-based: Philox 4x32-10 keyed by the seed, counting by trial, dimension's name and
  /// round), so that they depend on neither the order of other trials nor other dimensions.
  Point draw(Point point, uint64_t seed, int64_t number) const;

  /// The same for one dimension.
  double draw_dimension(size_t dimension, uint64_t seed, int64_t number, uint64_t round = 0) const;

  /// The point that has these values ("points to evaluate", trials of another program); parameters
  /// that are not named, or are nothing, are left NaN for draw(). Dimensions may be named too
  /// ("l1#0"). Throws a usage error for an unknown name, a value outside its domain, the result of
  /// an expression whose draws cannot be told from it (more than 4096 of them, or it names
  /// parameters that are not given), and the result of a C++ function.
  Point point_of(const std::map<std::string, Value>& values) const;

  /// The values that a parameter can have, conditions aside, each once and in the order of its
  /// draws; nothing if there are more than 64, no end of them, or more than 4096 points to look at.
  std::optional<std::vector<Value>> image_of(size_t parameter) const;

  /// Names of parameters that vary but have no dimensions (a C++ function, and what is computed
  /// from one), so that no searcher can learn them.
  std::vector<std::string> opaque() const;

  /// Indices of the grid dimensions, sorted by name, first varies fastest; empty if there is no
  /// grid. Source: Ray Tune 2.60, variant_generator.
  std::vector<size_t> grid_dimensions() const;

  /// What a study file would say: an array of {name, domain, when}; equal spaces give equal texts.
  Json description() const;

  /// The inverse. Throws a usage error for anything else, and for a C++ function, which no text
  /// describes.
  static Space from_description(const Json& description);

  /// What differs from `stored` (a description()), one line per parameter; empty if nothing does.
  std::vector<std::string> differences(const Json& stored) const;

  struct Impl;  ///< of the room's own sources

 private:
  std::shared_ptr<const Impl> impl_;
};

/// How one parameter of a described space differs from the stored one's; neither text: only the
/// order of the parameters is another one (kOtherOrder).
struct SpaceChange {
  std::string name;
  /// "loguniform(1e-4, 0.1) when a == 1"; nothing: not there.
  std::optional<std::string> stored, now;
};
inline constexpr std::string_view kOtherOrder = "the parameters are in another order";

/// Of two descriptions; nothing if one of them is none.
std::optional<std::vector<SpaceChange>> space_changes(const Json& stored, const Json& now);

/// Values as the object that a trial's program reads: nested by dots, inactive ones left out.
Json to_json(const Space& space, const Values& values);

}  // namespace muster::tune
