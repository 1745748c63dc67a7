"""Makes the tiny models of this directory and what the public Python implementation says of them.

Run once, with torch 2.15, transformers 5.22 and tokenizers 0.23; the results are kept, so that the tests need no Python:

    python tests/data/semantic/make.py

Each model has the layout of a public one (all-MiniLM-L6-v2, Qwen3-Embedding, bge-reranker-v2-m3) and random weights that
are large enough for every part to matter. The reference is computed in f32 from the weights as they are stored.
"""

import json
import pathlib

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertModel,
    Qwen3Config,
    Qwen3Model,
    XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
)

HERE = pathlib.Path(__file__).parent
TEXTS = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The pump was restarted after the valve had been closed.",
    "",
    "Straße, naïve café, 漢字とかな, 🙂 and\ttabs\nand lines",
    "restart the gateway plugin " * 12,
]
PAIRS = [
    ("how do I restart the pump", "Close the valve, then restart the pump."),
    ("how do I restart the pump", "A man is eating food."),
    ("Straße 漢字", "naïve café"),
    ("", "nothing was asked"),
    ("restart the gateway plugin " * 6, "a piece of bread and a valve " * 12),
]
CORPUS = TEXTS + [text for pair in PAIRS for text in pair]
INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


def randomise(model):
    torch.manual_seed(20261117)
    for name, weight in model.named_parameters():
        is_scale = name.endswith("weight") and weight.dim() == 1
        with torch.no_grad():
            weight.copy_(torch.randn_like(weight) * (0.1 if is_scale else 0.25) + (1.0 if is_scale else 0.0))
    return model.eval()


def store(name, model, config, tokenizer, dtype, skip=()):
    into = HERE / name
    into.mkdir(exist_ok=True)
    stored = {key: value.detach().to(dtype).contiguous() for key, value in model.state_dict().items()}
    stored = {key: value for key, value in stored.items() if not key.startswith(tuple(skip) or ("-",))}
    save_file(stored, into / "model.safetensors", metadata={"format": "pt"})
    # The reference is what the stored weights give.
    model.load_state_dict({key: value.float() for key, value in stored.items()}, strict=False)
    said = config.to_dict()
    said["architectures"] = [type(model).__name__ if name != "qwen3" else "Qwen3ForCausalLM"]
    (into / "config.json").write_text(json.dumps(said, indent=1) + "\n")
    tokenizer.save(str(into / "tokenizer.json"), pretty=False)
    return into


def keep(into, reference):
    (into / "reference.json").write_text(json.dumps(reference, ensure_ascii=False, indent=1) + "\n")


def unit(vector):
    return torch.nn.functional.normalize(vector, dim=-1)


def bert():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=200, special_tokens=special))
    ids = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids
    )
    # As all-MiniLM-L6-v2 has it: settings that a reader has to set aside.
    tokenizer.enable_truncation(max_length=16)
    tokenizer.enable_padding(length=16)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=64,
    )
    model = randomise(BertModel(config, add_pooling_layer=False))
    into = store("bert", model, config, tokenizer, torch.float32)
    (into / "1_Pooling").mkdir(exist_ok=True)
    (into / "1_Pooling/config.json").write_text(
        json.dumps({"word_embedding_dimension": 32, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True})
    )
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=64)
    cases = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        with torch.no_grad():
            states = model(input_ids=torch.tensor([ids])).last_hidden_state
        cases.append({"text": text, "part": "passage", "ids": ids, "vector": unit(states.mean(dim=1))[0].tolist()})
    keep(into, cases)


def qwen3():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    end = "<|endoftext|>"
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=[AddedToken(end, special=True)], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A $B:1 {end}:1", special_tokens=[(end, tokenizer.token_to_id(end))]
    )
    config = Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=512, rms_norm_eps=1e-6,
        rope_theta=1_000_000.0, eos_token_id=tokenizer.token_to_id(end), bos_token_id=tokenizer.token_to_id(end),
        tie_word_embeddings=True, use_cache=False,
    )
    model = randomise(Qwen3Model(config))
    into = store("qwen3", model, config, tokenizer, torch.bfloat16)
    (into / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": INSTRUCT, "document": ""}}))
    (into / "1_Pooling").mkdir(exist_ok=True)
    (into / "1_Pooling/config.json").write_text(
        json.dumps({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True})
    )
    cases = []
    for part, prompt in (("passage", ""), ("query", INSTRUCT)):
        for text in TEXTS:
            ids = tokenizer.encode(prompt + text).ids
            with torch.no_grad():
                states = model(input_ids=torch.tensor([ids])).last_hidden_state
            cases.append({"text": text, "part": part, "ids": ids, "vector": unit(states[:, -1])[0].tolist()})
    keep(into, cases)


def xlm_roberta():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(
        CORPUS, trainers.UnigramTrainer(vocab_size=160, special_tokens=special, unk_token="<unk>", show_progress=False)
    )
    ids = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ids
    )
    config = XLMRobertaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5, num_labels=1,
        pad_token_id=1, bos_token_id=0, eos_token_id=2,
    )
    model = randomise(XLMRobertaForSequenceClassification(config))
    into = store("xlm-roberta", model, config, tokenizer, torch.float16)
    cases = []
    for query, passage in PAIRS:
        ids = tokenizer.encode(query, passage).ids
        with torch.no_grad():
            logit = model(input_ids=torch.tensor([ids])).logits[0, 0]
        cases.append({"query": query, "passage": passage, "ids": ids, "score": torch.sigmoid(logit).item()})
    keep(into, cases)


bert()
qwen3()
xlm_roberta()
