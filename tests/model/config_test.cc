#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/adapter_targets.h"
#include "model/layer_spec.h"
#include "model/plain_model.h"

namespace ingot::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

base::json::value Llama() {
  return *base::ParseJson(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 100,
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 128, "rope_theta": 5e5, "eos_token_id": [7, 8], "bos_token_id": 1})");
}

TEST(ModelConfig, ReadsTheFileAndFillsInTheFamilysDefaults) {
  const auto c = ModelConfig::FromJson(Llama());
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->num_key_value_heads, 4);
  EXPECT_EQ(c->head_dim, 16);
  EXPECT_EQ(c->rope_theta, 5e5);
  EXPECT_EQ(c->eos_token_ids, (std::vector<int64_t>{7, 8}));
  EXPECT_EQ(c->bos_token_id, 1);
  EXPECT_FALSE(c->attention_bias || c->qk_norm || c->tie_word_embeddings);
}

TEST(ModelConfig, ReadsItsOwnOutputBackEqual) {
  for (const char* type : {"qwen3", "qwen2", "llama", "mistral"}) {
    ModelConfig c = testing::SmallConfig(type);
    c.rope_theta = 12345.5;
    c.eos_token_ids = {3};
    c.torch_dtype = "bfloat16";
    const auto again = ModelConfig::FromJson(*base::ParseJson(base::PrintJson(c.ToJson())));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(base::PrintJson(again->ToJson()), base::PrintJson(c.ToJson()));
    EXPECT_EQ(again->rope_theta, c.rope_theta);
    EXPECT_EQ(again->qk_norm, c.qk_norm);
    EXPECT_EQ(again->attention_bias, c.attention_bias);
  }
}

TEST(ModelConfig, RejectsUnsupportedKeysByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"hidden_act", R"("gelu")"},
      {"rope_scaling", R"({"type": "longrope", "factor": 4.0})"},
      {"rope_scaling", R"({"type": "linear", "factor": 0.5})"},
      {"rope_scaling", R"({"factor": 4.0})"},
      {"rope_scaling", R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4})"},
      {"rope_scaling", R"({"rope_type": "yarn", "factor": 4, "beta_fast": 0.5})"},
      {"rope_scaling", R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 0})"},
      {"rope_parameters", R"({"rope_type": "llama3", "rope_theta": 1e4})"},
      {"rope_parameters", R"({"full_attention": {"rope_type": "yarn", "factor": 4}})"},
      {"rope_parameters", R"({"rope_type": "default", "mrope_section": [1, 2]})"},
      {"partial_rotary_factor", R"(0.25)"},
      {"is_causal", "false"},
      {"auto_map", R"({"AutoModelForCausalLM": "modeling.Other"})"},
      {"layer_types", R"(["full_attention", "sliding_attention"])"},
      {"sliding_window", R"(0)"},
      {"mlp_bias", "1"},
      {"quantization_config", R"({"bits": 4})"},
      {"architectures", R"(["LlamaForSequenceClassification"])"},
      {"model_type", R"("mamba")"},
      {"num_key_value_heads", "3"},
      {"num_hidden_layers", "-1"},
      {"num_hidden_layers", "1e3"},
      {"vocab_size", "99999999999999999999"},
      {"hidden_size", R"("64")"},
      {"hidden_size", "9223372036854775807"},
      {"head_dim", "7"},
      {"rms_norm_eps", "0"},
      {"rope_theta", "-1"},
      {"partial_rotary_factor", "0.5"},
      {"torch_dtype", R"("int8")"},
      {"eos_token_id", R"("</s>")"},
      {"tie_word_embeddings", "1"},
  };
  for (const auto& [key, text] : cases) {
    base::json::value json = Llama();
    if (std::string(key) == "sliding_window") {
      json.as_object()["model_type"] = "mistral";
      json.as_object()["architectures"] = base::json::array{"MistralForCausalLM"};
      json.as_object()["num_key_value_heads"] = 4;
    }
    json.as_object()[key] = *base::ParseJson(text);
    const auto c = ModelConfig::FromJson(json);
    ASSERT_FALSE(c.ok()) << key << " " << text;
    EXPECT_EQ(c.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(c.status().message()), HasSubstr(key));
  }
  for (const char* key : {"model_type", "vocab_size", "hidden_size", "max_position_embeddings"}) {
    base::json::value json = Llama();
    json.as_object().erase(key);
    EXPECT_THAT(std::string(ModelConfig::FromJson(json).status().message()), HasSubstr(key));
  }
  for (const char* key : {"model_type", "hidden_act", "torch_dtype"}) {
    base::json::value json = Llama();
    json.as_object()[key] = std::string(70'000, 'w');
    const absl::Status status = ModelConfig::FromJson(json).status();
    EXPECT_FALSE(status.ok()) << key;
    EXPECT_LE(status.message().size(), 1100u) << key;
  }
  EXPECT_FALSE(ModelConfig::FromJson(base::json::value(3)).ok());
  EXPECT_EQ(ModelConfig::FromFile("/no/such/config.json").status().code(), absl::StatusCode::kNotFound);
}

// config.json of Kimi-K2, in bf16.
constexpr char kKimi[] =
    R"({"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV3Config", "AutoModel": "modeling_deepseek.DeepseekV3Model",
                 "AutoModelForCausalLM": "modeling_deepseek.DeepseekV3ForCausalLM"},
    "aux_loss_alpha": 0.001, "bos_token_id": 163584, "eos_token_id": 163585, "ep_size": 1, "first_k_dense_replace": 1,
    "hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.02, "intermediate_size": 18432, "kv_lora_rank": 512,
    "max_position_embeddings": 131072, "model_type": "kimi_k2", "moe_intermediate_size": 2048, "moe_layer_freq": 1,
    "n_group": 1, "n_routed_experts": 384, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 64,
    "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 64, "num_nextn_predict_layers": 0,
    "pretraining_tp": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 1.0, "beta_slow": 1.0, "factor": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                     "original_max_position_embeddings": 4096, "type": "yarn"},
    "rope_theta": 50000.0, "routed_scaling_factor": 2.827, "scoring_func": "sigmoid", "seq_aux": true,
    "tie_word_embeddings": false, "topk_group": 1, "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "use_cache": true,
    "v_head_dim": 128, "vocab_size": 163840})";

TEST(ModelConfig, ReadsKimiK2) {
  const auto config = ModelConfig::FromJson(*base::ParseJson(kKimi));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->experts.count, 384);
  EXPECT_EQ(config->experts.dense_layers, 1);
  EXPECT_EQ(config->experts.scale, 2.827);
  EXPECT_EQ(config->latent.query_rank, 1536);
  EXPECT_TRUE(config->latent.interleaved);
  EXPECT_EQ(config->routes_per_token(), 60 * 8);
  const double sharper = 0.1 * std::log(32.0) + 1;
  EXPECT_NEAR(config->query_scale, sharper * sharper / std::sqrt(192.0), 1e-12);
  EXPECT_NEAR(static_cast<double>(config->ParameterCount()), 1.026e12, 2e9);
  const auto again = ModelConfig::FromJson(*base::ParseJson(base::PrintJson(config->ToJson())));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(base::PrintJson(again->ToJson()), base::PrintJson(config->ToJson()));
  // 512 numbers of a latent and 64 of the common key, per token and layer.
  EXPECT_EQ(SpecOf(*config).cache_elements(), 61 * (512 + 64));
}

// The keys of Qwen3-Next-80B-A3B's config.json that are not the defaults.
constexpr char kQwen3Next[] =
    R"({"architectures": ["Qwen3NextForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 151643,
    "decoder_sparse_step": 1, "eos_token_id": 151645, "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu",
    "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5120, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
    "max_position_embeddings": 262144, "mlp_only_layers": [], "model_type": "qwen3_next", "moe_intermediate_size": 512,
    "norm_topk_prob": true, "num_attention_heads": 16, "num_experts": 512, "num_experts_per_tok": 10,
    "num_hidden_layers": 48, "num_key_value_heads": 2, "output_router_logits": false, "partial_rotary_factor": 0.25,
    "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000000, "router_aux_loss_coef": 0.001,
    "shared_expert_intermediate_size": 512, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true,
    "use_sliding_window": false, "vocab_size": 151936})";

TEST(ModelConfig, ReadsTheBiasesOfTheFeedForwardPart) {
  base::json::value json = Llama();
  const auto plain = ModelConfig::FromJson(json);
  json.as_object()["mlp_bias"] = true;
  const auto biased = ModelConfig::FromJson(json);
  ASSERT_TRUE(biased.ok()) << biased.status();
  EXPECT_TRUE(biased->mlp_bias);
  EXPECT_EQ(biased->ParameterCount() - plain->ParameterCount(), 2 * (96 + 96 + 64));
  const auto shapes = SpecOf(*biased).Shapes();
  EXPECT_EQ(shapes.at("model.layers.1.mlp.gate_proj.bias"), (std::vector<int64_t>{96}));
  EXPECT_EQ(shapes.at("model.layers.1.mlp.down_proj.bias"), (std::vector<int64_t>{64}));
  EXPECT_TRUE(biased->ToJson().at("mlp_bias").get_bool());
  json.as_object()["model_type"] = "mistral";
  json.as_object()["architectures"] = base::json::array{"MistralForCausalLM"};
  json.as_object()["num_key_value_heads"] = 4;
  EXPECT_THAT(std::string(ModelConfig::FromJson(json).status().message()), HasSubstr("mlp_bias"));
}

TEST(ModelConfig, ReadsWhichLayersHaveExperts) {
  base::json::value json = *base::ParseJson(kQwen3Next);
  json.as_object()["decoder_sparse_step"] = 2;
  json.as_object()["mlp_only_layers"] = base::json::array{3, 1, 3};
  const auto config = ModelConfig::FromJson(json);
  ASSERT_TRUE(config.ok()) << config.status();
  std::vector<int64_t> with;
  for (int64_t layer = 0; layer < 10; ++layer) {
    if (config->has_experts(layer)) with.push_back(layer);
  }
  EXPECT_THAT(with, ElementsAre(5, 7, 9));
  EXPECT_EQ(config->expert_layers_before(8), 2);
  EXPECT_EQ(config->routes_per_token(), 22 * 10);
  const ModelSpec spec = SpecOf(*config);
  EXPECT_EQ(spec.layers[4].feed_forward.width, config->intermediate_size);
  EXPECT_EQ(spec.layers[5].feed_forward.experts.count, 512);
  EXPECT_EQ(base::PrintJson(config->ToJson().at("mlp_only_layers")), "[1,3]");
  EXPECT_EQ(ModelConfig::FromJson(config->ToJson())->experts, config->experts);
}

TEST(ModelConfig, ReadsQwen3Next) {
  const auto config = ModelConfig::FromJson(*base::ParseJson(kQwen3Next));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rotary_dim, 64);
  EXPECT_TRUE(config->is_recurrent(0) && config->is_recurrent(2) && config->is_recurrent(46));
  EXPECT_FALSE(config->is_recurrent(3) || config->is_recurrent(47));
  // By layer: experts and the shared one, their router and the two norms; then its recurrence or its attention.
  const int64_t h = 2048, experts = 513 * 3 * h * 512 + 512 * h + h + 2 * h;
  const int64_t recurrence = h * (2 * 2048 + 2 * 4096) + h * 64 + 4 * 8192 + 32 + 32 + 128 + 4096 * h;
  const int64_t attention = h * 2 * 4096 + 2 * h * 512 + 4096 * h + 2 * 256;
  EXPECT_EQ(config->ParameterCount(), 2 * 151936 * h + h + 48 * experts + 36 * recurrence + 12 * attention);
  EXPECT_NEAR(static_cast<double>(config->ParameterCount()), 79.7e9, 0.1e9);
  const ModelSpec spec = SpecOf(*config);
  EXPECT_EQ(spec.cache_elements(), 12 * 2 * 512);
  EXPECT_EQ(spec.state_bytes(2), 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2));
  const auto again = ModelConfig::FromJson(*base::ParseJson(base::PrintJson(config->ToJson())));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(base::PrintJson(again->ToJson()), base::PrintJson(config->ToJson()));
  EXPECT_EQ(again->recurrent, config->recurrent);
}

TEST(ModelConfig, RejectsWhatQwen3NextDoesNotCompute) {
  const std::pair<const char*, const char*> cases[] = {
      {"layer_types", R"(["linear_attention"])"},
      {"full_attention_interval", "0"},
      {"full_attention_interval", "49"},
      {"use_sliding_window", "true"},
      {"decoder_sparse_step", "0"},
      {"decoder_sparse_step", "49"},
      {"mlp_only_layers", "[48]"},
      {"mlp_only_layers", R"(["0"])"},
      {"linear_num_value_heads", "24"},
      {"linear_key_head_dim", "0"},
      {"linear_conv_kernel_dim", "65"},
      {"shared_expert_intermediate_size", "0"},
  };
  for (const auto& [key, text] : cases) {
    base::json::value json = *base::ParseJson(kQwen3Next);
    json.as_object()[key] = *base::ParseJson(text);
    const auto config = ModelConfig::FromJson(json);
    ASSERT_FALSE(config.ok()) << key << " " << text;
    const bool no_layer = std::string(key) == "full_attention_interval" && std::string(text) == "49";
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(no_layer ? "layer_types" : key));
  }
  base::json::value json = *base::ParseJson(kQwen3Next);
  base::json::array kinds(48, "full_attention");
  kinds[7] = "sliding_attention";
  json.as_object()["layer_types"] = kinds;
  EXPECT_THAT(std::string(ModelConfig::FromJson(json).status().message()), HasSubstr("'sliding_attention'"));
}

TEST(ModelConfig, RejectsWhatMiniMaxM2DoesNotCompute) {
  base::json::value folder = Llama();
  base::json::object& object = folder.as_object();
  object["model_type"] = "minimax_m2";
  object["architectures"] = base::json::array{"MiniMaxM2ForCausalLM"};
  object["num_key_value_heads"] = 4;
  object["scoring_func"] = "sigmoid";
  object["use_routing_bias"] = object["use_qk_norm"] = true;
  object["qk_norm_type"] = "per_layer";
  object["shared_intermediate_size"] = 0;
  object["auto_map"] = {{"AutoModelForCausalLM", "modeling_minimax_m2.MiniMaxM2ForCausalLM"}};
  ASSERT_TRUE(ModelConfig::FromJson(folder).ok()) << ModelConfig::FromJson(folder).status();
  const std::pair<const char*, const char*> cases[] = {
      {"scoring_func", R"("softmax")"},   {"use_routing_bias", "false"},
      {"use_qk_norm", "false"},           {"qk_norm_type", R"("per_head")"},
      {"shared_intermediate_size", "64"}, {"auto_map", R"({"AutoModelForCausalLM": "modeling_other.MiniMax"})"}};
  for (const auto& [key, text] : cases) {
    base::json::value json = folder;
    json.as_object()[key] = *base::ParseJson(text);
    EXPECT_THAT(std::string(ModelConfig::FromJson(json).status().message()), HasSubstr(key));
  }
}

TEST(ModelConfig, RejectsWhatKimiK2DoesNotCompute) {
  const std::pair<const char*, const char*> cases[] = {
      {"quantization_config", R"({"quant_method": "fp8", "weight_block_size": [128, 128]})"},
      {"auto_map", R"({"AutoModelForCausalLM": "modeling_other.DeepseekV3ForCausalLM"})"},
      {"scoring_func", R"("softmax")"},
      {"topk_method", R"("greedy")"},
      {"moe_layer_freq", "2"},
      {"q_lora_rank", "1000000000000000000"},
      {"q_lora_rank", "-1"},
  };
  for (const auto& [key, text] : cases) {
    base::json::value json = *base::ParseJson(kKimi);
    json.as_object()[key] = *base::ParseJson(text);
    EXPECT_THAT(std::string(ModelConfig::FromJson(json).status().message()), HasSubstr(key));
  }
}

// Each expert has rows of the table of tensors, which is made of a configuration alone.
TEST(ModelConfig, BoundsTheExpertsOfAllLayersTogether) {
  base::json::value json = *base::ParseJson(kKimi);
  json.as_object()["n_routed_experts"] = 16384;
  json.as_object()["num_hidden_layers"] = 4096;
  EXPECT_THAT(std::string(ModelConfig::FromJson(json).status().message()),
              HasSubstr("'num_experts' is 16384 in 4096 layers: more than 262144 in all"));
}

TEST(Adapters, DefaultTargetsAreTheFamilysOwnProducts) {
  const std::vector<std::string> seven = {"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"};
  EXPECT_EQ(DefaultTargets(testing::SmallConfig("qwen3")), seven);
  const ModelConfig kimi = *ModelConfig::FromJson(*base::ParseJson(kKimi));
  EXPECT_THAT(DefaultTargets(kimi), ElementsAre("down_proj", "gate_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj",
                                                "q_a_proj", "q_b_proj", "up_proj"));
  EXPECT_EQ(DefaultTargets(*ModelConfig::FromJson(*base::ParseJson(kQwen3Next))), seven);
  ModelConfig routed = testing::SmallConfig("qwen3_moe");
  routed.qk_norm = true;
  routed.experts = {.count = 4, .per_token = 2, .width = 16};
  EXPECT_THAT(DefaultTargets(routed), ElementsAre("k_proj", "o_proj", "q_proj", "v_proj"));
  routed.lora = {.rank = 2, .alpha = 4, .targets = DefaultTargets(routed)};
  EXPECT_EQ(routed.Validate(), absl::OkStatus());
}

TEST(Adapters, ATargetThatTheFamilyLacksIsRejectedWithThoseThatItHas) {
  ModelConfig config = testing::SmallConfig("qwen3_moe");
  config.qk_norm = true;
  config.experts = {.count = 4, .per_token = 2, .width = 16};
  config.lora = {.rank = 2, .alpha = 4, .targets = {"gate_proj"}};
  EXPECT_THAT(std::string(config.Validate().message()),
              HasSubstr("has 'gate_proj', which is not a product of a qwen3_moe layer: q_proj, k_proj, v_proj, o_proj, "
                        "experts.gate_proj, experts.up_proj, experts.down_proj"));
}

TEST(ModelConfig, ReadsSoftCaps) {
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    base::json::value json = Llama();
    json.as_object()["model_type"] = "gemma3_text";
    json.as_object()["architectures"] = base::json::array{"Gemma3ForCausalLM"};
    json.as_object()["num_key_value_heads"] = 4;
    json.as_object()[key] = nullptr;
    const auto read = ModelConfig::FromJson(json);
    ASSERT_TRUE(read.ok()) << read.status();
    json.as_object()[key] = 30.0;
    const auto capped = ModelConfig::FromJson(json);
    ASSERT_TRUE(capped.ok()) << capped.status();
    const bool attention = key == std::string("attn_logit_softcapping");
    EXPECT_EQ(capped->attention_soft_cap, attention ? 30 : 0);
    EXPECT_EQ(capped->logit_soft_cap, attention ? 0 : 30);
    EXPECT_EQ(capped->ToJson().at(key), base::json::value(30.0));
    EXPECT_TRUE(read->ToJson().at(key).is_null());
    for (const base::json::value& wrong : {base::json::value(0), base::json::value(-1.0), base::json::value("30")}) {
      json.as_object()[key] = wrong;
      EXPECT_THAT(std::string(ModelConfig::FromJson(json).status().message()), HasSubstr(key));
    }
  }
  base::json::value json = Llama();
  json.as_object()["model_type"] = "gemma2";  // which caps unless the file says null
  json.as_object()["architectures"] = base::json::array{"Gemma2ForCausalLM"};
  json.as_object()["num_key_value_heads"] = 4;
  const auto read = ModelConfig::FromJson(json);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->attention_soft_cap, 50);
  EXPECT_EQ(read->logit_soft_cap, 30);
  json.as_object()["attn_logit_softcapping"] = nullptr;
  EXPECT_EQ(ModelConfig::FromJson(json)->attention_soft_cap, 0);
}

TEST(ModelConfig, AWindowIsThatOfTheFamilyUnlessTheFileSaysOtherwise) {
  // The window of every layer, 0 = none.
  const auto with = [](const char* type, const char* architecture, const char* fields) {
    base::json::value json = Llama();
    base::json::object& object = json.as_object();
    object["model_type"] = type;
    object["architectures"] = base::json::array{architecture};
    object["num_key_value_heads"] = 4;
    object["max_position_embeddings"] = 8192;
    const base::json::value more = *base::ParseJson(fields);
    for (const auto& field : more.get_object()) object[field.key()] = field.value();
    const auto config = ModelConfig::FromJson(json);
    EXPECT_TRUE(config.ok()) << config.status();
    const auto again = ModelConfig::FromJson(config->ToJson());
    EXPECT_TRUE(again.ok()) << again.status();
    std::vector<int64_t> windows;
    for (size_t i = 0; i < 2; ++i) {
      windows.push_back(SpecOf(*config).layers[i].attention.window);
      EXPECT_EQ(windows.back(), SpecOf(*again).layers[i].attention.window) << "written and read back";
    }
    return windows;
  };
  const auto mistral = [&](const char* fields) { return with("mistral", "MistralForCausalLM", fields); };
  const auto qwen = [&](const char* fields) { return with("qwen2", "Qwen2ForCausalLM", fields); };
  using Windows = std::vector<int64_t>;
  EXPECT_EQ(mistral("{}"), (Windows{4096, 4096}));
  EXPECT_EQ(mistral(R"({"sliding_window": 16, "use_sliding_window": false})"), (Windows{16, 16}));
  EXPECT_EQ(mistral(R"({"sliding_window": null})"), (Windows{0, 0}));
  EXPECT_EQ(mistral(R"({"sliding_window": 8192})"), (Windows{0, 0})) << "as long as the context";
  EXPECT_EQ(mistral(R"({"max_position_embeddings": 2048})"), (Windows{0, 0}));
  EXPECT_EQ(qwen(R"({"sliding_window": 16})"), (Windows{0, 0})) << "switched off";
  EXPECT_EQ(qwen(R"({"use_sliding_window": true, "max_window_layers": 0})"), (Windows{4096, 4096}));
  EXPECT_EQ(qwen(R"({"use_sliding_window": true, "max_window_layers": 1, "sliding_window": 7})"), (Windows{0, 7}));
  EXPECT_EQ(qwen(R"({"use_sliding_window": true, "max_window_layers": 2, "sliding_window": 7})"), (Windows{0, 0}))
      << "from behind the last layer on";
  EXPECT_EQ(qwen(R"({"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 7})"), (Windows{7, 0}));
}

TEST(ModelConfig, RopeScalingIsReadInBothFormsAndWrittenForBoth) {
  base::json::value json = Llama();
  json.as_object()["rope_scaling"] = *base::ParseJson(
      R"({"type": "yarn", "factor": 4, "original_max_position_embeddings": 32, "attention_factor": 1.5})");
  const auto old = ModelConfig::FromJson(json);
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ(old->rope_scaling.type, "yarn");
  EXPECT_EQ(old->rope_scaling.original_positions, 32);
  EXPECT_EQ(old->rope_scaling.attention_factor, 1.5);
  const base::json::value written = *base::ParseJson(base::PrintJson(old->ToJson()));
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    base::json::value one = written;
    one.as_object().erase(key);
    const auto again = ModelConfig::FromJson(one);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->rope_scaling, old->rope_scaling) << "without " << key;
    EXPECT_EQ(again->rope_theta, 5e5);
  }
  json.as_object()["rope_parameters"] = *base::ParseJson(R"({"rope_type": "default", "rope_theta": 5e5})");
  EXPECT_THAT(std::string(ModelConfig::FromJson(json).status().message()), HasSubstr("contradicts rope_scaling"));
}

}  // namespace
}  // namespace ingot::model
