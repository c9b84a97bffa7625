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
