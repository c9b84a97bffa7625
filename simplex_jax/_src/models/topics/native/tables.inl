// Tables of a Chinese restaurant process in each document: its tokens of a topic come one after the
// other, and the one that finds n there sits at a table of its own with probability c / (c + n).

// Those of each topic in some documents are added to `tables`. `seen`, of zeros, is left as it was.
template <typename Label>
void seat(const Seating& task, int64_t first, int64_t last, int32_t* seen, int64_t* tables) {
  alignas(64) float u[kChunk], unused[kChunk];
  const Label* const labels = static_cast<const Label*>(task.labels);
  for (int64_t d = first; d < last; ++d) {
    const Label* const own = labels + task.starts[d];
    const int64_t length = task.lengths[d];
    for (int64_t at = 0; at < length; at += kChunk) {
      const int64_t count = std::min<int64_t>(kChunk, length - at);
      uniforms(task.key, task.ids[d], static_cast<uint32_t>(at), static_cast<uint32_t>(count), u,
               unused);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t topic = own[at + i];
        if (topic >= task.num_topics) continue;
        const int32_t earlier = seen[topic]++;
        const float c = task.concentration[topic];
        tables[topic] += earlier == 0 || u[i] * (c + static_cast<float>(earlier)) < c;
      }
    }
    for (int64_t i = 0; i < length; ++i) {
      if (own[i] < task.num_topics) seen[own[i]] = 0;
    }
  }
}

void tables(const Seating& task) {
  std::unique_ptr<int32_t[]> seen(new int32_t[task.num_topics]());
  std::unique_ptr<int64_t[]> own(new int64_t[task.num_topics]());
  // The last documents come first: they are the longest.
  for (int64_t taken;
       (taken = task.taken->fetch_add(task.claim, std::memory_order_relaxed)) < task.num_documents;) {
    const int64_t last = task.num_documents - taken, first = std::max<int64_t>(last - task.claim, 0);
    if (task.label_bytes == 1) {
      seat<uint8_t>(task, first, last, seen.get(), own.get());
    } else {
      seat<uint16_t>(task, first, last, seen.get(), own.get());
    }
  }
  std::lock_guard<std::mutex> lock(*task.lock);
  for (int64_t k = 0; k < task.num_topics; ++k) task.tables[k] += own[k];
}

// The same of the tokens of each word in a topic in each document, at concentrations of `own` times
// the word's probability. They are added to `tables`, which threads share, and counts of how many
// tokens of its topic each token found to `ranks`.
template <typename Label>
void seat_words(const Bursts& task, int64_t first, int64_t last, int32_t* seen, int32_t* repeats,
                int64_t* ranks) {
  alignas(64) float u[kChunk], unused[kChunk];
  const int64_t in_slice = task.num_documents / task.num_slices;
  for (int64_t d = first; d < last; ++d) {
    const Label* const own = static_cast<const Label*>(task.labels) + task.starts[d];
    const int32_t* const tokens = task.tokens + task.starts[d];
    const int64_t length = task.lengths[d], slice = d / in_slice;
    int64_t begun = 0;
    for (int64_t at = 0; at < length; at += kChunk) {
      const int64_t count = std::min<int64_t>(kChunk, length - at);
      uniforms(task.key, task.ids[d], static_cast<uint32_t>(at), static_cast<uint32_t>(count), u,
               unused);
      for (int64_t i = at; i < at + count; ++i) {
        if (i && tokens[i] != tokens[i - 1]) {
          for (; begun < i; ++begun) {
            if (own[begun] < task.num_topics) repeats[own[begun]] = 0;
          }
        }
        const int64_t topic = own[i];
        if (topic >= task.num_topics) continue;
        ++ranks[seen[topic]++];
        const int64_t cell = (topic * task.num_slices + slice) * task.num_words + tokens[i];
        const float earlier = static_cast<float>(repeats[topic]++);
        if (earlier > 0) {
          const float c = task.own * std::exp(task.log_topics[cell]);
          if (!(u[i - at] * (c + earlier) < c)) continue;
        }
        __atomic_fetch_add(task.tables + cell, 1, __ATOMIC_RELAXED);
      }
    }
    for (int64_t i = 0; i < length; ++i) {
      if (own[i] < task.num_topics) seen[own[i]] = repeats[own[i]] = 0;
    }
  }
}

void word_tables(const Bursts& task) {
  std::unique_ptr<int32_t[]> seen(new int32_t[2 * task.num_topics]());
  std::unique_ptr<int64_t[]> ranks(new int64_t[task.num_ranks]());
  for (int64_t taken;
       (taken = task.taken->fetch_add(task.claim, std::memory_order_relaxed)) < task.num_documents;) {
    const int64_t last = std::min(taken + task.claim, task.num_documents);
    if (task.label_bytes == 1) {
      seat_words<uint8_t>(task, taken, last, seen.get(), seen.get() + task.num_topics, ranks.get());
    } else {
      seat_words<uint16_t>(task, taken, last, seen.get(), seen.get() + task.num_topics, ranks.get());
    }
  }
  std::lock_guard<std::mutex> lock(*task.lock);
  for (int64_t i = 0; i < task.num_ranks; ++i) task.ranks[i] += ranks[i];
}
