//! The public items of the library, as a list that changes when they do; and no name stands for two types.
//!
//! `unreachable_pub` is denied, so every `pub` item outside of tests can be reached by a user.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quote::ToTokens as _;
use syn::{Attribute, Fields, ImplItem, Item, TraitItem, Type, Visibility};

/// The packages whose items a user of the library can name, by folder.
const PACKAGES: [&str; 13] = [
    "runtime",
    "runtime/agent",
    "runtime/backends",
    "runtime/brain",
    "runtime/core",
    "runtime/harness",
    "runtime/http",
    "runtime/learning",
    "runtime/semantic",
    "runtime/skills",
    "runtime/snapshot",
    "runtime/successor",
    "tools",
];

/// Packages that stand beside the library: their type names count too.
const BESIDE: [&str; 6] =
    ["runtime/bench", "runtime/model", "runtime/operator", "runtime/sandbox", "runtime/server-db", "runtime/settings"];

/// What a package shows.
#[derive(Default)]
struct PublicApi {
    /// `pub mod` and `pub use` of modules that can be named, by path.
    paths: Vec<String>,
    /// Items, without bodies, comments and private parts.
    items: Vec<String>,
    /// Names of types and traits.
    types: Vec<String>,
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn tokens(value: &impl quote::ToTokens) -> String {
    value.to_token_stream().to_string().replace(' ', "")
}

/// Tests, and what stands in for a part that this platform or build does not have.
fn is_left_out(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = tokens(attribute);
        text.starts_with("#[cfg(test)") || text.starts_with("#[cfg(not(") || text.starts_with("#[cfg(doctest)")
    })
}

/// Derives are implementations, features are conditions: both are part of what a user sees.
fn keep_telling(attributes: &mut Vec<Attribute>) {
    attributes.retain(|attribute| {
        ["derive", "cfg", "non_exhaustive", "must_use", "async_trait"]
            .iter()
            .any(|kept| attribute.path().segments.last().is_some_and(|last| last.ident == kept))
    });
}

fn keep_public_fields(fields: &mut Fields) {
    match fields {
        Fields::Named(named) => {
            let all = named.named.len();
            named.named = std::mem::take(&mut named.named).into_iter().filter(|field| is_public(&field.vis)).collect();
            if named.named.len() < all {
                // It cannot be written as a literal elsewhere.
                named.named.push(syn::parse_quote!(private_fields: _));
            }
        }
        Fields::Unnamed(unnamed) => {
            for field in &mut unnamed.unnamed {
                if !is_public(&field.vis) {
                    field.ty = syn::parse_quote!(_);
                }
            }
        }
        Fields::Unit => {}
    }
    for field in fields.iter_mut() {
        keep_telling(&mut field.attrs);
    }
}

/// Only what a user sees of an item; `None` where that is nothing.
fn seen(mut item: Item) -> Option<Item> {
    match &mut item {
        Item::Const(item) if is_public(&item.vis) => {
            keep_telling(&mut item.attrs);
            *item.expr = syn::parse_quote!(_);
        }
        Item::Static(item) if is_public(&item.vis) => {
            keep_telling(&mut item.attrs);
            *item.expr = syn::parse_quote!(_);
        }
        Item::Type(item) if is_public(&item.vis) => keep_telling(&mut item.attrs),
        Item::Fn(item) if is_public(&item.vis) => {
            keep_telling(&mut item.attrs);
            *item.block = syn::parse_quote!({});
        }
        Item::Struct(item) if is_public(&item.vis) => {
            keep_telling(&mut item.attrs);
            keep_public_fields(&mut item.fields);
        }
        Item::Enum(item) if is_public(&item.vis) => {
            keep_telling(&mut item.attrs);
            for variant in &mut item.variants {
                keep_telling(&mut variant.attrs);
                for field in variant.fields.iter_mut() {
                    keep_telling(&mut field.attrs);
                }
            }
        }
        Item::Trait(item) if is_public(&item.vis) => {
            keep_telling(&mut item.attrs);
            for member in &mut item.items {
                if let TraitItem::Fn(method) = member {
                    keep_telling(&mut method.attrs);
                    if let Some(body) = &mut method.default {
                        *body = syn::parse_quote!({});
                    }
                }
            }
        }
        Item::Impl(item) if item.trait_.is_some() => {
            keep_telling(&mut item.attrs);
            item.items.clear();
        }
        Item::Impl(item) => {
            keep_telling(&mut item.attrs);
            item.items.retain_mut(|member| match member {
                ImplItem::Fn(method) if is_public(&method.vis) => {
                    keep_telling(&mut method.attrs);
                    method.block = syn::parse_quote!({});
                    true
                }
                ImplItem::Const(constant) if is_public(&constant.vis) => {
                    keep_telling(&mut constant.attrs);
                    constant.expr = syn::parse_quote!(_);
                    true
                }
                _ => false,
            });
            if item.items.is_empty() {
                return None;
            }
        }
        _ => return None,
    }
    Some(item)
}

fn name_of_type(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        Type::Reference(reference) => name_of_type(&reference.elem),
        _ => None,
    }
}

struct Walk {
    api: PublicApi,
    /// Trait implementations, with the type they are for: private types drop out at the end.
    implementations: Vec<(Option<String>, String)>,
}

impl Walk {
    fn print(item: Item) -> String {
        let file = syn::File { shebang: None, frontmatter: None, attrs: Vec::new(), items: vec![item] };
        prettyplease::unparse(&file)
    }

    /// A module: where its own modules are, its path, and whether a user can name it.
    fn module(&mut self, items: Vec<Item>, children: &Path, path: &str, is_named: bool) {
        for item in items {
            match item {
                Item::Mod(module) => {
                    if is_left_out(&module.attrs) {
                        continue;
                    }
                    let is_named = is_named && is_public(&module.vis);
                    let inner = format!("{path}::{}", module.ident);
                    if is_named {
                        self.api.paths.push(format!("pub mod {inner}"));
                    }
                    let below = children.join(module.ident.to_string());
                    match module.content {
                        Some((_, items)) => self.module(items, &below, &inner, is_named),
                        None => {
                            let file = [below.with_extension("rs"), below.join("mod.rs")]
                                .into_iter()
                                .find(|file| file.is_file())
                                .unwrap_or_else(|| panic!("{inner} has no file"));
                            self.module(parse(&file), &below, &inner, is_named);
                        }
                    }
                }
                Item::Use(item) if is_public(&item.vis) && is_named && !is_left_out(&item.attrs) => {
                    let conditions: String =
                        item.attrs.iter().filter(|a| a.path().is_ident("cfg")).map(tokens).collect();
                    let used = item.tree.to_token_stream().to_string();
                    let used = used.replace(" :: ", "::").replace("{ ", "{").replace(" }", "}").replace(" ,", ",");
                    self.api.paths.push(format!("{path}: {conditions}pub use {used}"));
                }
                Item::Use(_) => {}
                item => self.item(item),
            }
        }
    }

    fn item(&mut self, item: Item) {
        let (attributes, name) = match &item {
            Item::Struct(item) if is_public(&item.vis) => (&item.attrs, Some(item.ident.to_string())),
            Item::Enum(item) if is_public(&item.vis) => (&item.attrs, Some(item.ident.to_string())),
            Item::Trait(item) if is_public(&item.vis) => (&item.attrs, Some(item.ident.to_string())),
            Item::Type(item) if is_public(&item.vis) => (&item.attrs, Some(item.ident.to_string())),
            Item::Fn(item) => (&item.attrs, None),
            Item::Impl(item) => (&item.attrs, None),
            Item::Const(item) => (&item.attrs, None),
            Item::Static(item) => (&item.attrs, None),
            _ => return,
        };
        if is_left_out(attributes) {
            return;
        }
        self.api.types.extend(name);
        let of = match &item {
            Item::Impl(item) => Some((name_of_type(&item.self_ty), item.trait_.is_some())),
            _ => None,
        };
        let Some(item) = seen(item) else { return };
        match of {
            Some((of, true)) => self.implementations.push((of, Self::print(item))),
            _ => self.api.items.push(Self::print(item)),
        }
    }
}

fn parse(file: &Path) -> Vec<Item> {
    let text = std::fs::read_to_string(file).expect("a file");
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())).items
}

fn folder(package: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(package)
}

fn public_api(package: &str) -> PublicApi {
    let src = folder(package).join("src");
    let mut walk = Walk { api: PublicApi::default(), implementations: Vec::new() };
    walk.module(parse(&src.join("lib.rs")), &src, "crate", true);
    let Walk { mut api, implementations } = walk;
    let own = implementations.into_iter().filter(|(of, _)| of.as_ref().is_some_and(|name| api.types.contains(name)));
    api.items.extend(own.map(|(_, text)| text));
    api.paths.sort();
    api.items.sort_by_cached_key(|text| (declaration(text), text.clone()));
    api
}

/// The first line of an item that is no attribute, without `pub`: what it is sorted by.
fn declaration(text: &str) -> String {
    text.lines().find(|line| !line.starts_with("#[")).unwrap_or_default().trim_start_matches("pub ").to_owned()
}

/// `cargo insta accept`, or `INSTA_UPDATE=always` with this test, takes a change over. It needs a line in the changelog.
#[test]
fn a_change_of_the_public_items_is_seen() {
    for package in PACKAGES {
        let PublicApi { paths, items, .. } = public_api(package);
        let name = package.rsplit('/').next().expect("a name").replace("runtime", "herm");
        let text = format!("{}\n\n{}", paths.join("\n"), items.join("\n"));
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("api_{name}"), text);
        });
    }
}

#[test]
fn no_name_stands_for_two_public_types() {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for package in PACKAGES.into_iter().chain(BESIDE) {
        for name in public_api(package).types {
            places.entry(name).or_default().push(package);
        }
    }
    assert!(places.len() > 300, "only {} types: the test no longer reads the code", places.len());
    let twice: Vec<_> = places.into_iter().filter(|(_, packages)| packages.len() > 1).collect();
    assert_eq!(twice, [], "one word for one thing: rename one of them");
}
