use serde_json::{Value, json};

use super::*;

fn minilm() -> Value {
    json!({
        "architectures": ["BertModel"], "model_type": "bert", "hidden_size": 384, "intermediate_size": 1536,
        "num_hidden_layers": 6, "num_attention_heads": 12, "vocab_size": 30522, "max_position_embeddings": 512,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "pad_token_id": 0,
    })
}

fn qwen3() -> Value {
    json!({
        "architectures": ["Qwen3ForCausalLM"], "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151669,
        "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 1000000,
        "rope_scaling": null, "eos_token_id": 151643, "attention_bias": false, "use_sliding_window": false,
    })
}

fn shape(said: &Value) -> Result<Shape> {
    let config: Config = serde_json::from_value(said.clone()).unwrap();
    config.shape()
}

#[test]
fn the_models_that_are_meant_are_read_as_their_makers_describe_them() {
    let bert = shape(&minilm()).unwrap();
    assert_eq!((bert.architecture, bert.head_size, bert.types), (Architecture::Bert, 32, 2));
    let qwen = shape(&qwen3()).unwrap();
    assert_eq!((qwen.heads, qwen.key_heads, qwen.head_size, qwen.end), (16, 8, 128, Some(151_643)));
    assert_eq!((qwen.rope_base, qwen.activation), (1_000_000.0, Activation::Silu));
    let newer = json!({"rope_theta": null, "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"}});
    let mut said = qwen3();
    said.as_object_mut().unwrap().extend(newer.as_object().unwrap().clone());
    assert_eq!(shape(&said).unwrap().rope_base, 5_000.0);
}

#[test]
fn a_model_of_its_family_without_further_files_pools_and_asks_as_the_family_does() {
    let nowhere = Path::new("/nowhere");
    let (bert, qwen) = (shape(&minilm()).unwrap(), shape(&qwen3()).unwrap());
    assert_eq!((bert.pooling(nowhere).unwrap(), qwen.pooling(nowhere).unwrap()), (Pooling::Mean, Pooling::Last));
    assert_eq!(bert.prompts(nowhere).unwrap(), Prompts::default());
    assert!(qwen.prompts(nowhere).unwrap().query.ends_with("\nQuery:"));
    assert_eq!((bert.most_tokens(nowhere).unwrap(), qwen.most_tokens(nowhere).unwrap()), (512, 1_024));
}

#[test]
fn numbers_that_no_model_has_are_refused_before_anything_is_made_by_them() {
    let absurd = [
        ("hidden_size", json!(0)),
        ("hidden_size", json!(u64::MAX)),
        ("hidden_size", Value::Null),
        ("num_hidden_layers", json!(1_000_000_000)),
        ("num_attention_heads", json!(0)),
        ("num_attention_heads", json!(7)),
        ("vocab_size", json!(1u64 << 60)),
        ("intermediate_size", json!(1u64 << 40)),
        ("max_position_embeddings", json!(3)),
        ("layer_norm_eps", json!(-1.0)),
        ("type_vocab_size", json!(0)),
        ("hidden_act", json!("swish-9")),
        ("position_embedding_type", json!("relative_key")),
        ("architectures", json!(["T5ForConditionalGeneration"])),
    ];
    for (name, value) in absurd {
        let mut said = minilm();
        said[name] = value.clone();
        assert_eq!(shape(&said).unwrap_err().kind(), crate::error::ErrorKind::InvalidInput, "{name} {value}");
    }
    let absurd = [
        ("num_key_value_heads", json!(3)),
        ("head_dim", json!(127)),
        ("head_dim", json!(0)),
        ("rope_theta", json!(0.0)),
        ("rope_theta", json!(-5)),
        ("rope_scaling", json!({"rope_type": "yarn"})),
        ("attention_bias", json!(true)),
    ];
    for (name, value) in absurd {
        let mut said = qwen3();
        said[name] = value.clone();
        assert_eq!(shape(&said).unwrap_err().kind(), crate::error::ErrorKind::InvalidInput, "{name} {value}");
    }
}
