"""``make_model.py FOLDER``: a random GPT-2 of 2.8 MB with a tokenizer of its own. Nothing is downloaded.

GPT-2, since the rotary embedding of newer architectures comes from a package that needs a GPU. Run by the interpreter
that has torch and transformers.
"""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

VOCABULARY = 320
TEXT = ["hello world the quick brown fox jumps over the lazy dog"] * 50
CHAT = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"


def save_tokenizer(folder: str) -> None:
    """Byte-level BPE, as GPT-2's, trained on one sentence."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<s>", "</s>", "<pad>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(TEXT, trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    wrapped.chat_template = CHAT
    wrapped.save_pretrained(folder)


def save_model(folder: str) -> None:
    """Random weights, the same each time, by which the end of the text is never drawn: no answer is empty."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=VOCABULARY, n_embd=128, n_layer=2, n_head=4, n_positions=2048, bos_token_id=0,
                        eos_token_id=1, pad_token_id=2)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        model.transformer.ln_f.bias[0] = 10.0
        model.transformer.wte.weight[:, 0] = 0.0
        model.transformer.wte.weight[config.eos_token_id, 0] = -100.0
    model.save_pretrained(folder)


if __name__ == "__main__":
    save_tokenizer(sys.argv[1])
    save_model(sys.argv[1])
