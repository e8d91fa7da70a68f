#include "q_geo_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace osdn::eval {
namespace {

using nlohmann::json;

json to_json(const QGeoSums& s) {
  return {s.count, s.log_q,  s.log_q_ones, s.log_q_mean, s.log_q_flip, s.q,
          s.beta,  s.energy, s.strength,   s.above_one,  s.clamped};
}

QGeoSums sums_from(const json& array) {
  QGeoSums s;
  array.at(0).get_to(s.count);
  array.at(1).get_to(s.log_q);
  array.at(2).get_to(s.log_q_ones);
  array.at(3).get_to(s.log_q_mean);
  array.at(4).get_to(s.log_q_flip);
  array.at(5).get_to(s.q);
  array.at(6).get_to(s.beta);
  array.at(7).get_to(s.energy);
  array.at(8).get_to(s.strength);
  array.at(9).get_to(s.above_one);
  array.at(10).get_to(s.clamped);
  return s;
}

json row_of(const QGeoSums& s, bool preconditioned) {
  const auto n = static_cast<double>(s.count);
  json row = {{"n", s.count},
              {"q_geo", std::exp(s.log_q / n)},
              {"mean_beta", s.beta / n}};
  if (preconditioned) {
    row["q_geo_ones"] = std::exp(s.log_q_ones / n);
    row["q_geo_mean"] = std::exp(s.log_q_mean / n);
    row["q_geo_flip"] = std::exp(s.log_q_flip / n);
    row["mean_d_k2"] = s.energy / n;
  }
  return row;
}

template <typename Sums>
json numbered(const char* key, const Sums& all, std::int64_t step,
              bool preconditioned) {
  json rows = json::array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].count == 0) continue;
    json row = row_of(all[i], preconditioned);
    row[key] = static_cast<std::int64_t>(i) * step;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::string to_text(const QGeoTables& tables) {
  json object = {{"preconditioned", tables.preconditioned},
                 {"heads", json::array()},
                 {"relative", json::array()},
                 {"absolute", json::array()},
                 {"histogram", tables.histogram}};
  for (const auto& [head, sums] : tables.heads) {
    object["heads"].push_back({head.first, head.second, to_json(sums)});
  }
  for (const QGeoSums& s : tables.relative) {
    object["relative"].push_back(to_json(s));
  }
  for (const QGeoSums& s : tables.absolute) {
    object["absolute"].push_back(to_json(s));
  }
  return object.dump();
}

QGeoTables q_geo_tables_from(const std::string& text) {
  const json object = json::parse(text);
  QGeoTables tables;
  object.at("preconditioned").get_to(tables.preconditioned);
  for (const json& entry : object.at("heads")) {
    tables.heads[{entry.at(0), entry.at(1)}] = sums_from(entry.at(2));
  }
  for (std::size_t i = 0; i < tables.relative.size(); ++i) {
    tables.relative[i] = sums_from(object.at("relative").at(i));
  }
  for (const json& entry : object.at("absolute")) {
    tables.absolute.push_back(sums_from(entry));
  }
  object.at("histogram").get_to(tables.histogram);
  return tables;
}

json q_geo_detail(const QGeoTables& tables) {
  json detail = {
      {"layers", json::array()},
      {"heads", json::array()},
      {"relative", numbered("bin", tables.relative, 1, tables.preconditioned)},
      {"absolute",
       numbered("position", tables.absolute, QGeoTables::kPositionsABucket,
                tables.preconditioned)}};
  for (const auto& [layer, sums] : tables.layers()) {
    json row = row_of(sums, tables.preconditioned);
    row["layer"] = layer;
    detail["layers"].push_back(std::move(row));
  }
  for (const auto& [head, sums] : tables.heads) {
    json row = row_of(sums, tables.preconditioned);
    row["layer"] = head.first;
    row["head"] = head.second;
    detail["heads"].push_back(std::move(row));
  }
  return detail;
}

}  // namespace osdn::eval
