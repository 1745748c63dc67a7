// Typing asks once, when it pauses, and not at every letter.

export function later(what, wait = 160) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(what, wait);
  };
}
