package ui

// A lang is a language of the pages.
type lang struct {
	tag   string
	texts map[string]string
}

// text returns a text of the templates in the language: key itself, where there is no
// other.
func (l *lang) text(key string) string {
	if s, ok := l.texts[key]; ok {
		return s
	}
	return key
}

// languages are the languages of the pages; the first is for browsers that want another.
var languages = []*lang{{"en", english}, {"zh-CN", chinese}}

// english has the texts whose keys are no text.
var english = map[string]string{
	"endless":  "A hold has no end. If its process dies, it stays, until somebody takes it away.",
	"over":     "The lease of a holder is over. The next one who asks removes it.",
	"longheld": "It has been held for long, and somebody waits.",
	"overdue":  "A waiter has not said for a while that it lives. The queue drops it soon.",
	"unnamed":  "No holder has a label, so Redis does not know its host. Set latchkey.Label.",
	"number":   "An integer: a semaphore or a latch that nobody uses now, or something else.",
	"slots":    "Its braces are no hash tag: the name cannot be used in a Redis Cluster.",
}

var chinese = map[string]string{
	"endless":  "有一个持有没有期限：进程若死亡，它会一直存在，直到有人强制释放。",
	"over":     "某个持有者的租约已过期，下一个请求者会将其清除。",
	"longheld": "已被持有很久，且有人在等待。",
	"overdue":  "某个等待者已有一段时间没有报告存活，队列很快会将其移除。",
	"unnamed":  "持有者都没有标签，Redis 不知道它们在哪台主机上。请设置 latchkey.Label。",
	"number":   "一个整数：当前无人使用的信号量或门闩，也可能是别的东西。",
	"slots":    "名称中的花括号不是哈希标签：它不能用于 Redis Cluster。",

	"Locks": "锁", "Contention": "争用", "Clients": "客户端", "Jobs": "任务", "Leaders": "领导者", "Not done": "未执行",
	"Skip to content": "跳到正文", "Pages": "页面",
	"Name": "名称", "Kind": "类型", "Holder": "持有者", "Held": "持有时长", "Lease": "租约", "Waiting": "等待", "State": "状态", "Text": "文本", "Sort by": "排序",
	"any": "全部", "held": "被持有", "waited for": "有人等待", "idle": "空闲", "waiters": "等待者", "time held": "持有时长", "name": "名称", "Show": "显示", "Reset": "重置",
	"lock": "锁", "fair": "公平锁", "readwrite": "读写锁", "multilock": "联锁", "semaphore": "信号量", "permitsemaphore": "许可信号量", "latch": "门闩", "counter": "计数", "free": "空闲",
	"objects": "个对象", "shown": "个符合", "Previous": "上一页", "Next": "下一页", "Page": "页", "of": "/",
	"Nothing is held.": "没有任何锁被持有。", "Nothing matches.": "没有符合条件的对象。", "Reading key names…": "正在读取键名…",
	"Redis does not answer as it should:": "Redis 没有正常响应：", "This is from": "以下内容来自",
	"more": "个", "no label": "无标签", "for": "已等", "left": "剩余", "available": "可用", "value": "值", "Count": "计数", "Token": "令牌", "Listeners": "监听者",
	"Key expires in": "键过期于", "This is": "这是", "Nobody holds it.": "无人持有。", "Holders": "持有者", "Queue": "队列", "Mode": "模式", "Process": "进程", "Place": "位置",
	"Waiter": "等待者", "Waits": "等待时长", "Deadline": "期限", "waits for": "正在等待", "Advice": "提示", "Nothing is odd.": "没有异常。", "Back to the list": "返回列表",
	"Nobody stands in a queue.": "队列中无人。", "connections listen: each has one waiter or more.": "个连接在监听，每个有一个或多个等待者。",
	"Force unlock": "强制释放", "Type the name to confirm": "输入名称以确认", "Set permits": "设置许可数", "Begin a count": "开始计数", "End the count": "结束计数",
	"Number": "数量", "Actions": "操作", "Take it from": "从其手中取走：", "Set": "设置", "Begin": "开始", "End": "结束",
	"It works on until it learns of that, within a third of its lease.": "它会继续工作，直到在三分之一租约内得知。",
	"Who waits is released.": "等待者将被放行。", "Back": "返回", "Last events": "最近事件", "late": "续租延迟",
	"Where people wait": "谁在等待", "Nobody waits.": "无人等待。", "Waited for": "等待时长", "Held by": "持有者",
	"Client": "客户端", "Host": "主机", "Version": "版本", "Holds": "持有", "Late renewals": "延迟续约", "Seen": "最近",
	"Nobody holds anything, and nobody waits.": "无人持有，也无人等待。",
	"Job": "任务", "Time": "时间", "Outcome": "结果", "Started": "开始", "Took": "用时", "Attempt": "次数", "Error": "错误", "No run is known.": "没有已知的运行。",
	"running": "运行中", "done": "完成", "failed": "失败", "lost": "丢失", "ago": "前",
	"Election": "选举", "Leader": "领导者", "Term": "任期", "Since": "开始于", "Value": "值", "nobody": "无人", "No election is known.": "没有已知的选举。",
	"Event": "事件", "acquired": "获得", "released": "释放", "forced": "被强制释放", "Ago": "多久前", "Wait": "等待",
	"History is off: no client writes one (latchkey.WithHistory).": "历史记录已关闭：没有客户端写入（latchkey.WithHistory）。",
	"Nothing is known of it.":                                      "没有相关记录。", "The last hour": "最近一小时", "Acquired": "获得次数", "Longest wait": "最长等待", "Longest hold": "最长持有",
	"Events dropped": "丢弃的事件",
}
