/* words.pml: the signal flags of transfers, called words here, as defined in docs/transfers.md.
 * Shared by the model (transfers.pml) and by the models that accept_trace.py makes from traces.
 *
 * A word is owned by the rank that awaits it and has one of three values. With FLAG, words are in
 * the memory of the owner's GPU, and only kernels await them. Then no word is RELEASED: kernels
 * also read a flag in host memory, which ends all waits.
 */
#define CLEAR 0    /* no signal */
#define SET 1      /* a signal that no await has consumed */
#define RELEASED 2 /* the owner's host ended all waits; represents 0x40000000 */

/* A signal is one store. An await is two accesses: it passes when it has seen a value other than
 * CLEAR, and then clears the word. A memory operation clears any value; a kernel keeps RELEASED. */
#define STORE(w) word[w] = SET
#ifdef FLAG
#define SEEN(w) (word[w] != CLEAR || flag[OWNER(w)])
#else
#define SEEN(w) (word[w] != CLEAR)
#endif
#define TAKE_EAGER(w) word[w] = CLEAR
#define TAKE_REPLAYED(w, seen) \
  if :: seen == SET -> word[w] = CLEAR :: else -> skip fi
