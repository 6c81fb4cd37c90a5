// cairo, opened when a picture is first asked for.
#pragma once

#include <cairo.h>

namespace muster::track {

// Linked, it and its twenty libraries would cost each start of `muster` 2 ms, which takes 3; a trial
// in a shell starts it with every report.

/// The functions that we call, by their names without "cairo_".
struct CairoLibrary {
// clang-format 14 finds no end to this.
// clang-format off
#define MUSTER_CAIRO_FUNCTIONS(F)                                                                  \
  F(image_surface_create)                                                                          \
  F(create) F(destroy) F(surface_destroy) F(scale) F(set_line_cap) F(set_line_join)                \
      F(set_source_rgba) F(set_line_width) F(stroke) F(fill) F(fill_preserve) F(set_dash)          \
          F(set_antialias) F(rectangle) F(move_to) F(line_to) F(close_path) F(new_sub_path)        \
              F(new_path) F(arc) F(select_font_face) F(set_font_size) F(text_extents) F(show_text) \
                  F(text_path) F(status) F(status_to_string) F(surface_write_to_png_stream)    \
                  F(image_surface_get_data) F(image_surface_get_stride)                            \
                      F(surface_mark_dirty) F(set_source_surface) F(get_source) F(save) F(restore) \
                          F(translate) F(pattern_set_filter) F(pattern_set_extend)
// clang-format on
#define MUSTER_CAIRO_MEMBER(name) decltype(&cairo_##name) name = nullptr;
  MUSTER_CAIRO_FUNCTIONS(MUSTER_CAIRO_MEMBER)
#undef MUSTER_CAIRO_MEMBER
};

/// Any thread. Throws an environment error if it is not installed; the next call tries again.
const CairoLibrary& cairo_library();

}  // namespace muster::track
