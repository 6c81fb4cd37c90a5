// Outlines of studies and the calls beside their logs, in our own tables.
#include <cstdint>
#include <string>
#include <vector>

#include "muster/tune/storage/study_tables.h"

namespace muster::tune {

Storage::Outline select_outline(Database& database, int64_t study_id, int64_t last) {
  Statement row = database.prepare(
      "SELECT o.event, o.outline FROM muster_outlines AS o JOIN muster_events AS e "
      "ON e.event_key = ?1 + o.event AND e.time = o.time WHERE o.study_id = ?2 AND o.event <= ?3");
  row.bind(1, event_key(study_id, 0)).bind(2, study_id).bind(3, last);
  if (!row.step()) return {};
  return {.event = row.integer(0), .text = std::string(row.text(1))};
}

void put_outline(Database& database,
                 int64_t study_id,
                 const Event& newest,
                 const std::string& text) {
  database
      .prepare(
          "INSERT OR REPLACE INTO muster_outlines (study_id, event, time, outline) "
          "VALUES (?, ?, ?, ?)")
      .bind(1, study_id)
      .bind(2, newest.id)
      .bind(3, newest.time_s)
      .bind(4, text)
      .run();
}

std::vector<CallPiece> select_call_pieces(Database& database, int64_t study_id, int64_t up_to) {
  Statement rows = database.prepare(
      "SELECT behind, event, rules, chain, calls FROM muster_calls "
      "WHERE study_id = ? AND event <= ? ORDER BY event");
  rows.bind(1, study_id).bind(2, up_to);
  std::vector<CallPiece> pieces;
  while (rows.step()) {
    pieces.push_back({.after = rows.integer(0),
                      .event = rows.integer(1),
                      .rules = std::string(rows.text(2)),
                      .chain = std::string(rows.text(3)),
                      .calls = std::string(rows.text(4))});
  }
  return pieces;
}

CallPiece select_last_call_piece(Database& database, int64_t study_id) {
  Statement row = database.prepare(
      "SELECT c.behind, c.event, c.rules, c.chain FROM muster_calls AS c JOIN muster_events AS e "
      "ON e.event_key = ?1 + c.event AND e.time = c.time WHERE c.study_id = ?2 "
      "AND c.event = (SELECT max(event) FROM muster_calls WHERE study_id = ?2)");
  row.bind(1, event_key(study_id, 0)).bind(2, study_id);
  if (!row.step()) return {};
  return {.after = row.integer(0),
          .event = row.integer(1),
          .rules = std::string(row.text(2)),
          .chain = std::string(row.text(3)),
          .calls = {}};
}

void put_call_piece(Database& database,
                    int64_t study_id,
                    const Event& newest,
                    const CallPiece& piece) {
  if (piece.after == 0)
    database.prepare("DELETE FROM muster_calls WHERE study_id = ?").bind(1, study_id).run();
  database
      .prepare(
          "INSERT INTO muster_calls (study_id, event, behind, time, rules, chain, calls) "
          "VALUES (?, ?, ?, ?, ?, ?, ?)")
      .bind(1, study_id)
      .bind(2, piece.event)
      .bind(3, piece.after)
      .bind(4, newest.time_s)
      .bind(5, piece.rules)
      .bind(6, piece.chain)
      .bind(7, piece.calls)
      .run();
}

}  // namespace muster::tune
