#include <cstddef>
#include <cstdint>

#include "inspect_report.h"
#include "layer_json.h"

namespace headwise::cli {

namespace {

Json spectrum_json(const Spectrum& spectrum) {
  return {{"singular_values", spectrum.singular_values},
          {"frobenius_norm", spectrum.frobenius_norm},
          {"spectral_norm", spectrum.spectral_norm},
          {"condition", spectrum.condition},
          {"rank", spectrum.rank},
          {"effective_rank", spectrum.effective_rank},
          {"stable_rank", spectrum.stable_rank},
          {"dims",
           {{"90%", dims_for_energy(spectrum, 0.9)},
            {"99%", dims_for_energy(spectrum, 0.99)},
            {"99.9%", dims_for_energy(spectrum, 0.999)}}}};
}

Json head_json(std::size_t index, const HeadSpectra& head) {
  Json json = {{"head", index}, {"kv_head", head.kv_head}, {"finite", head.finite}};
  if (!head.finite) return json;
  json["scores"] = spectrum_json(head.scores);
  json["values"] = spectrum_json(head.values);
  json["norms"] = {{"query", head.query_norm},
                   {"key", head.key_norm},
                   {"value", head.value_norm},
                   {"output", head.output_norm}};
  json["key_preference"] = head.key_preference;
  json["constant_output"] = head.constant_output;
  json["score_spread"] = head.score_spread;
  json["uniform"] = head.uniform;
  json["dead"] = head.dead;
  return json;
}

Json matrix_json(const Tensor& matrix) {
  Json rows = Json::array();
  for (std::int64_t i = 0; i < matrix.extent(0); ++i) {
    const auto row = matrix.view().at(0, i);
    rows.push_back(std::vector<float>(row.data(), row.data() + row.size()));
  }
  return rows;
}

Json pairs_json(const std::vector<HeadPair>& pairs) {
  Json list = Json::array();
  for (const HeadPair& pair : pairs) {
    list.push_back({{"head", pair.head}, {"other", pair.other}, {"similarity", pair.similarity}});
  }
  return list;
}

Json layer_json(const InspectedLayer& layer) {
  Json json = {{"name", layer.found.name}, {"layout", name_of(layer.found.layout)}};
  json["config"] = layer.found.config ? config_json(*layer.found.config) : Json(nullptr);
  if (!layer.found.missing.empty()) json["missing"] = layer.found.missing;
  json["notes"] = layer.found.notes;
  if (!layer.spectra) return json;
  const LayerSpectra& spectra = *layer.spectra;
  json["heads"] = Json::array();
  for (std::size_t h = 0; h < spectra.heads.size(); ++h) {
    json["heads"].push_back(head_json(h, spectra.heads[h]));
  }
  json["median_value_norm"] = spectra.median_value_norm;
  json["score_similarity"] = matrix_json(spectra.score_similarity);
  json["value_similarity"] = matrix_json(spectra.value_similarity);
  json["alike_scores"] = pairs_json(spectra.alike_scores);
  json["alike_values"] = pairs_json(spectra.alike_values);
  return json;
}

}  // namespace

std::string inspect_json(const InspectReport& report, const ReportOptions& options) {
  Json json = {{"file", report.path},
               {"format", report.format},
               {"tensor_count", report.tensors.size()},
               {"layer_count", report.layers_in_file},
               {"thresholds",
                {{"dead_below", report.thresholds.dead_below},
                 {"uniform_below", report.thresholds.uniform_below},
                 {"alike_above", report.thresholds.alike_above}}}};
  if (options.list_tensors) {
    json["tensors"] = Json::array();
    for (const TensorInfo& tensor : report.tensors) {
      json["tensors"].push_back(
          {{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", shape_json(tensor.shape)}});
    }
  }
  json["layers"] = Json::array();
  for (const InspectedLayer& layer : report.layers) json["layers"].push_back(layer_json(layer));
  // Names may hold bytes that are no UTF-8. What is not finite becomes null.
  return json.dump(1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace headwise::cli
