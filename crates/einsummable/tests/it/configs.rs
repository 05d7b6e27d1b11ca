//! What configurations say, and what of them is refused: nothing that changes the computation is passed over.

use super::fixture;
use einsummable::models::{Architecture, DecoderConfig, EncoderConfig, ModelConfig, Norms};
use einsummable::nn::Activation;
use einsummable::nn::rotary::Scaling;
use serde_json::{Value, json};

/// The configuration of a folder with some keys changed; `null` stays, as a file may have it.
fn changed(name: &str, keys: &Value) -> Value {
    let text = std::fs::read_to_string(fixture(name).join("model/config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    for (key, value) in keys.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

fn parsed(name: &str, keys: &Value) -> ModelConfig {
    ModelConfig::parse(&changed(name, keys).to_string()).unwrap_or_else(|e| panic!("{name} {keys}: {e}"))
}

fn decoder(name: &str, keys: &Value) -> DecoderConfig {
    let ModelConfig::Decoder(config) = parsed(name, keys) else { panic!("{name} is a decoder") };
    config
}

fn encoder(name: &str, keys: &Value) -> EncoderConfig {
    let ModelConfig::Encoder(config) = parsed(name, keys) else { panic!("{name} is an encoder") };
    config
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    let check = |name: &str, keys: &Value, parts: &[&str]| {
        let message = match ModelConfig::parse(&changed(name, keys).to_string()) {
            Ok(_) => panic!("{name} with {keys} is taken"),
            Err(error) => error.to_string(),
        };
        for part in parts {
            assert!(message.contains(part), "{name}: `{part}` in: {message}");
        }
    };
    // Rotations.
    let rope = |parameters: Value| json!({ "rope_parameters": parameters });
    let kinds = "default, linear, dynamic, llama3, yarn and longrope";
    check(
        "mistral",
        &rope(json!({ "rope_type": "proportional" })),
        &["rope_parameters.rope_type", "`proportional`", kinds],
    );
    check("mistral", &json!({ "rope_scaling": { "type": "su" } }), &["rope_scaling.rope_type", "`su`", kinds]);
    check("mistral", &rope(json!({ "rope_type": 3 })), &["rope_parameters.rope_type", "a text"]);
    check("mistral", &rope(json!("yarn")), &["`rope_parameters`", "an object"]);
    check("qwen2", &rope(json!({ "mrope_section": [1, 2, 1] })), &["rope_parameters.mrope_section", "one rotation"]);
    check("qwen2", &rope(json!({ "full_attention": {} })), &["rope_parameters.full_attention", "one rotation"]);
    check("qwen2", &rope(json!({ "partial_rotary_factor": 0.5 })), &["partial_rotary_factor", "0.5", "only 1"]);
    check("qwen2", &json!({ "partial_rotary_factor": 0.5 }), &["`partial_rotary_factor`", "only 1"]);
    check(
        "phi-3",
        &json!({ "rope_parameters": { "partial_rotary_factor": 0.4 } }),
        &["partial_rotary_factor", "not 3"],
    );
    check(
        "phi-3",
        &json!({ "rope_parameters": { "partial_rotary_factor": 1.5 } }),
        &["partial_rotary_factor", "at most 1"],
    );
    check("mistral", &rope(json!({ "rope_type": "linear" })), &["no `rope_parameters.factor`", "MistralForCausalLM"]);
    check("mistral", &rope(json!({ "rope_type": "linear", "factor": -1 })), &["rope_parameters.factor", "-1"]);
    let long = json!({ "rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0] });
    check("mistral", &rope(long), &["rope_parameters.short_factor", "a list of 4"]);
    check("mistral", &json!({ "head_dim": 7 }), &["`head_dim` is 7", "even"]);
    // Layers.
    check(
        "qwen2",
        &json!({ "layer_types": ["full_attention", "chunked_attention"] }),
        &["layer_types", "chunked", "sliding"],
    );
    check("qwen2", &json!({ "layer_types": ["full_attention"] }), &["layer_types", "a list of 2"]);
    check("qwen2", &json!({ "use_sliding_window": false }), &["layer_types", "no `sliding_window`"]);
    check("mistral", &json!({ "layer_types": ["full_attention", "sliding_attention"] }), &["layer_types", "one type"]);
    check("gemma-2", &json!({ "use_bidirectional_attention": true }), &["use_bidirectional_attention", "only false"]);
    check("gemma-2", &json!({ "attn_logit_softcapping": -1.0 }), &["attn_logit_softcapping", "positive"]);
    check("gemma-2", &json!({ "hidden_activation": "mish" }), &["`hidden_activation` is `mish`", "gelu_pytorch_tanh"]);
    check("gpt-2", &json!({ "activation_function": "gelu_10" }), &["`activation_function` is `gelu_10`"]);
    check("gpt-2", &json!({ "add_cross_attention": true }), &["add_cross_attention", "only false"]);
    check("gpt-2", &json!({ "n_head": 5 }), &["`n_embd` is 24", "`n_head` (5)"]);
    check("bert", &json!({ "is_decoder": true }), &["is_decoder", "only false"]);
    check("bert", &json!({ "position_embedding_type": "relative_key" }), &["position_embedding_type", "relative_key"]);
    check("roberta", &json!({ "max_position_embeddings": 2 }), &["max_position_embeddings", "`pad_token_id` (1)"]);
    check("distilbert", &json!({ "activation": "silly" }), &["`activation` is `silly`"]);
    check("distilbert", &json!({ "dim": null }), &["no `dim`", "DistilBertForMaskedLM"]);
    check("vit", &json!({ "image_size": [12, 10, 3] }), &["image_size", "height and width"]);
    check("vit", &json!({ "patch_size": 16 }), &["image_size", "[16, 16]"]);
    check("vit", &json!({ "id2label": { "1": "a" } }), &["id2label", "from 0 on"]);
    // Heads and families.
    let architecture = |name: &str| json!({ "architectures": [name] });
    check(
        "bert",
        &architecture("BertForQuestionAnswering"),
        &["`BertForQuestionAnswering`", "BertForMaskedLM", "ViTModel"],
    );
    check("qwen3", &architecture("Qwen3MoeForCausalLM"), &["`Qwen3MoeForCausalLM`", "Qwen3ForCausalLM"]);
    check("qwen3", &json!({ "architectures": null, "model_type": "mamba" }), &["model type `mamba`", "LlamaModel"]);
}

#[test]
fn older_files_say_the_same() {
    // The rotation before `rope_parameters`.
    let old =
        json!({ "rope_parameters": null, "rope_theta": 5e5, "rope_scaling": { "type": "linear", "factor": 2.0 } });
    let rotary = decoder("mistral", &old).rotary;
    assert_eq!((rotary.theta, rotary.scaling), (5e5, Scaling::Linear { factor: 2.0 }));
    // Phi-3's two other names, and the first context beside the parameters.
    for kind in ["su", "yarn"] {
        let scaling = json!({ "type": kind, "short_factor": [1.0, 1.0, 1.0], "long_factor": [2.0, 2.0, 2.0] });
        let keys = json!({ "rope_parameters": null, "partial_rotary_factor": 0.75, "rope_scaling": scaling });
        let config = decoder("phi-3", &keys);
        let long = Scaling::Long { short: vec![1.0; 3], long: vec![2.0; 3], original: 8 };
        assert_eq!((config.rotary.scaling, config.rotary.dims), (long, Some(6)), "{kind}");
    }
    // Without `architectures`, the model type decides; decoders have their head then.
    for (name, expected) in [("mistral", "MistralForCausalLM"), ("gpt-2", "GPT2LMHeadModel"), ("bert", "BertModel")] {
        assert_eq!(parsed(name, &json!({ "architectures": null })).architecture().name(), expected);
    }
    assert_eq!(Architecture::names().split(", ").count(), 22);
}

#[test]
fn what_differs_between_families() {
    let none = json!({});
    assert_eq!(decoder("mistral", &none).windows, [Some(4); 2]);
    assert_eq!(decoder("mistral", &json!({ "sliding_window": null })).windows, [None; 2]);
    assert_eq!(decoder("mistral", &json!({ "num_key_value_heads": null })).num_key_value_heads, 5);
    assert_eq!(decoder("qwen2", &none).windows, [None, Some(3)]);
    assert_eq!(decoder("qwen2", &json!({ "layer_types": null, "max_window_layers": 0 })).windows, [Some(3); 2]);
    assert_eq!(decoder("qwen2", &json!({ "layer_types": null, "use_sliding_window": false })).windows, [None; 2]);
    assert!(decoder("qwen2", &none).biases.qkv && !decoder("qwen2", &none).biases.output);
    assert!(decoder("qwen3", &none).qk_norm && decoder("phi-3", &none).fused);
    let gemma = decoder("gemma-2", &none);
    assert_eq!((gemma.windows, gemma.norms), (vec![Some(4), None], Norms::Around));
    assert_eq!((gemma.attention_softcap, gemma.logit_softcap), (Some(2.0), Some(3.0)));
    assert_eq!(gemma.hidden_act, Activation::GeluTanh);
    let uncapped = json!({ "attn_logit_softcapping": null, "final_logit_softcapping": null });
    let uncapped = decoder("gemma-2", &uncapped);
    assert_eq!((uncapped.attention_softcap, uncapped.logit_softcap), (None, None));
    assert_eq!(encoder("bert", &none).max_tokens(), 24);
    assert_eq!(encoder("roberta", &none).max_tokens(), 22);
    assert_eq!(encoder("distilbert", &none).type_vocab_size, None);
    let ModelConfig::Vit(vit) = parsed("vit", &json!({ "id2label": { "0": "cat", "1": "dog" } })) else { panic!() };
    assert_eq!((vit.grid(), vit.sequence(), vit.labels.as_slice()), ([3, 2], 7, &["cat".into(), "dog".into()][..]));
}

/// Sequences longer than positions are stored for are refused when the model is built.
#[test]
fn sequences_that_are_too_long() {
    let check = |name: &str, sequence: usize, parts: &[&str]| {
        let (_, output) = parsed(name, &json!({})).outputs(1, sequence);
        let message = output.check().unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{name}: `{part}` in: {message}");
        }
        parsed(name, &json!({})).outputs(1, sequence - 1).1.check().unwrap();
    };
    check("bert", 25, &["25 tokens", "24 positions"]);
    check("roberta", 23, &["23 tokens", "22 positions"]);
    check("gpt-2", 25, &["25 tokens", "24 positions"]);
}
